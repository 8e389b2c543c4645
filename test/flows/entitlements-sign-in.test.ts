import { expect } from 'chai';
import type { JWTPayload } from 'jose';
import { createConnector, type Connector } from '../support/management-api.ts';
import {
  isConsentPage,
  openBrowser,
  requireExternalRedirect,
  requirePage,
  type Browser,
  type Page,
} from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, redeem, registerClient } from '../support/connection.ts';
import { authorizeUrl, discover, refresh, type Client } from '../support/oauth.ts';
import {
  type OpenIdProvider,
  openIdSettings,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { startSystem, type System } from '../support/system.ts';
import { levelsUpTo, type Level } from '../../src/permission-levels.ts';
import { DEFAULT_LEVELS } from '../support/levels.ts';

/** Longer than a process caches an account. */
const REMEMBERED = 15;

const ENTITLEMENTS = [
  { match: { group: 'analysts' }, level: 'analytics' },
  { match: { emailDomain: 'example.com' }, level: 'operations' },
  { match: { email: 'boss@example.com' }, level: 'admin' },
  { match: { group: 'owners' }, level: 'full' },
];

describe('Claims of the identity provider', () => {
  let provider: OpenIdProvider;
  let system: System;
  let connector: Connector;
  before(async () => {
    provider = await startOpenIdProvider();
    system = await startSystem(openIdSettings(provider, { entitlements: ENTITLEMENTS }));
    connector = await createConnector(system, { level: 'full' });
  });
  afterEach(restoreClock);
  after(async () => {
    await system?.stop();
    await provider.stop();
  });

  /** The page after a sign-in with these claims. */
  async function signIn(browser: Browser, url: URL, claims: JWTPayload): Promise<Page> {
    provider.setBehaviour({ claims: { name: 'Ada Lovelace', ...claims } });
    const departure = requireExternalRedirect(await browser.visit(url));
    return requirePage(await browser.visit(provider.approve(departure)));
  }

  async function open(claims: JWTPayload, client?: Client) {
    const { link } = connector;
    const { server } = await discover(link);
    const registered = client ?? (await registerClient(server));
    const browser = openBrowser([system.auth]);
    const { url, verifier } = authorizeUrl(server, registered, { resource: link });
    const page = await signIn(browser, url, claims);
    const approve = async (level: Level) => {
      const callback = requireExternalRedirect(
        await browser.submit(page, { decision: 'approve', level }),
      );
      return redeem({ link, server, client: registered, callback, verifier });
    };
    return { page, server, client: registered, approve };
  }

  const offered = ({ forms }: Page) =>
    forms.flatMap(({ controls }) =>
      controls.flatMap(({ name, value }) => (name === 'level' ? [value] : [])),
    );

  const cases: [JWTPayload, Level | undefined][] = [
    [{ groups: ['analysts'], email: 'ada@other.example', email_verified: true }, 'analytics'],
    [{ groups: [], email: 'ADA@Example.com', email_verified: true }, 'operations'],
    [{ groups: ['analysts'], email: 'Boss@example.com', email_verified: true }, 'admin'],
    [{ groups: ['owners', 'analysts'], email: 'ada@example.com', email_verified: false }, 'full'],
    [{ groups: ['analysts'], email: 'boss@example.com', email_verified: false }, 'analytics'],
    [{ groups: ['analysts'], email: 'boss@example.com' }, 'analytics'],
    [{ groups: ['staff'], email: 'boss@example.com', email_verified: 'true' }, undefined],
    [{ email: 'ada@mail.example.com', email_verified: true }, undefined],
  ];
  for (const [claims, level] of cases) {
    it(`IDP-04 IDP-08 the claims ${JSON.stringify(claims)} give ${level ?? 'nothing'}`, async () => {
      const { page, approve } = await open({ sub: JSON.stringify(claims), ...claims });
      if (!level) {
        expect(page.status).to.equal(403);
        expect(isConsentPage(page)).to.equal(false);
        return;
      }
      expect(offered(page)).to.deep.equal(levelsUpTo(DEFAULT_LEVELS, level));
      expect((await approve(level)).body.scope).to.equal(`${level} offline_access`);
    });
  }

  it('losing a group lowers or ends existing connections after the next sign-in', async () => {
    const person = { sub: 'leaver', email: 'leaver@example.com', email_verified: true };
    const first = await open({ ...person, groups: ['owners'] });
    const { body } = await first.approve('full');
    expect(body.scope).to.equal('full offline_access');
    let token = body.refresh_token;

    await open({ ...person, groups: [] });
    advanceClock(REMEMBERED);
    const lower = await refresh(first.server, first.client, token);
    expect(lower.body.scope).to.equal('operations offline_access');
    token = lower.body.refresh_token;

    await open({ ...person, groups: [], email: 'leaver@elsewhere.example' });
    advanceClock(REMEMBERED);
    const { status, body: refused } = await refresh(first.server, first.client, token);
    expect([status, refused.error]).to.deep.equal([400, 'invalid_grant']);

    await open({ ...person, groups: ['owners'] });
    advanceClock(REMEMBERED);
    const again = await refresh(first.server, first.client, token);
    expect(again.body.scope).to.equal('full offline_access');
  });
});

describe('Groups of the development identity provider', () => {
  it('a rule about a group of developmentIdp.people gives its level', async () => {
    const entitlements = [{ match: { group: 'staff' }, level: 'operations' }];
    const system = await startSystem({ file: { entitlements } });
    try {
      const connected = await connect(system, await createConnector(system), {
        person: 'grace',
        level: 'operations',
      });
      expect(connected.scope).to.equal('operations offline_access');
    } finally {
      await system.stop();
    }
  });
});
