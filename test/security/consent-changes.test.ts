import { expect } from 'chai';
import type { JWTPayload } from 'jose';
import { publish } from '../oauth/metadata-documents/document-host.ts';
import { usePublishing } from '../oauth/metadata-documents/publishing.ts';
import { createConnector } from '../support/management-api.ts';
import {
  isConsentPage,
  type Browser,
  describePage,
  openBrowser,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { registerClient } from '../support/connection.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import {
  type OpenIdProvider,
  openIdSettings,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { startSystem, type System } from '../support/system.ts';

/** Longer than a document is cached by default. */
const CACHE_SECONDS = 400;

describe('A consent page whose client metadata document changes', () => {
  const publishing = usePublishing('sqlite');

  /** Opens a consent page, publishes `changes`, and makes another person's request fetch them. */
  async function openThenPublish(changes: Record<string, unknown>) {
    const { system, connector, host, newClient, visit } = publishing();
    const client = newClient();
    const { server } = await discover(connector.link);
    const browser = openBrowser(system.origins);
    const page = await browser.openConsent(
      authorizeUrl(server, client, { resource: connector.link }).url,
    );
    expect(isConsentPage(page), describePage(page)).to.equal(true);
    host.answer = publish(changes);
    advanceClock(CACHE_SECONDS);
    await visit(client);
    return { browser, page };
  }

  it('RED-10 approving sends no code to a redirect URI that the document no longer lists', async () => {
    const { browser, page } = await openThenPublish({
      redirect_uris: ['http://localhost/callback'],
    });
    const answer = requirePage(await browser.submit(page, { decision: 'approve' }));
    expect(answer.status).to.equal(400);
    expect(isConsentPage(answer)).to.equal(false);
  });

  it('CON-07 approving a client that changed its name shows the page again before it takes effect', async () => {
    const { browser, page } = await openThenPublish({ client_name: 'Somebody else' });
    const again = requirePage(await browser.submit(page, { decision: 'approve' }));
    expect(again.status).to.equal(409);
    expect(again.html)
      .to.include('Somebody else')
      .and.match(/id="changed"[^]*app’s details changed/);
    const callback = requireExternalRedirect(await browser.submit(again, { decision: 'approve' }));
    expect(callback.searchParams.has('code')).to.equal(true);
  });

  it('CON-07 approving takes effect when the document changed in nothing that the page shows', async () => {
    const { browser, page } = await openThenPublish({ software_version: '2.0' });
    const callback = requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
    expect(callback.searchParams.has('code')).to.equal(true);
  });
});

describe('A consent page whose account changes', () => {
  let provider: OpenIdProvider;
  let system: System;
  before(async () => {
    provider = await startOpenIdProvider();
    const entitlements = [
      { match: { group: 'owners' }, level: 'full' },
      { match: { group: 'staff' }, level: 'operations' },
    ];
    system = await startSystem(openIdSettings(provider, { entitlements }));
  });
  afterEach(restoreClock);
  after(async () => {
    await system?.stop();
    await provider.stop();
  });

  async function signIn(browser: Browser, url: URL, claims: JWTPayload) {
    provider.setBehaviour({ claims: { name: 'Ada', email: 'ada@example.com', ...claims } });
    const departure = requireExternalRedirect(await browser.visit(url));
    return requirePage(await browser.visit(provider.approve(departure)));
  }

  const LATER: [string, JWTPayload, RegExp][] = [
    ['may grant less', { groups: ['staff'] }, /access you can choose changed/],
    [
      'changed the name',
      { groups: ['owners'], name: 'Not Ada' },
      /account details changed[^]*Not Ada/,
    ],
    [
      'changed the address',
      { groups: ['owners'], email: 'x@example.com', email_verified: true },
      /x@example\.com/,
    ],
    [
      'verified the address',
      { groups: ['owners'], email_verified: true },
      /account details changed/,
    ],
    ['is another person', { groups: ['owners'], sub: 'subject-2', name: 'Eve' }, /again/i],
    ['may grant nothing', { groups: [] }, /signed in/i],
  ];
  for (const [who, claims, shown] of LATER) {
    it(`CON-07 approving the earlier page has no effect after a sign-in by a person who ${who}`, async () => {
      const { link } = await createConnector(system, { level: 'full' });
      const { server } = await discover(link);
      const client = await registerClient(server);
      const start = (more = {}) => authorizeUrl(server, client, { resource: link, ...more }).url;
      const browser = openBrowser([system.auth]);
      const page = await signIn(browser, start(), { groups: ['owners'] });
      await signIn(browser, start({ prompt: 'login' }), claims);
      const again = requirePage(await browser.submit(page, { decision: 'approve', level: 'full' }));
      expect(again.status, describePage(again)).to.be.within(400, 499);
      expect(again.html).to.match(shown);
    });
  }

  it('CON-07 approving takes effect when the account changed in nothing that the page shows', async () => {
    const { link } = await createConnector(system, { level: 'full' });
    const { server } = await discover(link);
    const client = await registerClient(server);
    const start = (more = {}) => authorizeUrl(server, client, { resource: link, ...more }).url;
    const browser = openBrowser([system.auth]);
    const page = await signIn(browser, start(), { groups: ['owners'] });
    advanceClock(5);
    await signIn(browser, start({ prompt: 'login' }), { groups: ['owners', 'staff'] });
    const callback = requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
    expect(callback.searchParams.has('code')).to.equal(true);
  });
});
