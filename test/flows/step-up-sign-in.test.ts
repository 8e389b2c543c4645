// Levels whose approval needs a recent sign-in, or one of a certain class.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { ID_JAG_ERRORS } from '../../src/oauth/engine/id-jag-validation.ts';
import { openRaisePage } from '../support/account-page.ts';
import {
  type Browser,
  describePage,
  isConsentPage,
  openBrowser,
  type Page,
  requireExternalRedirect,
  requirePage,
  type Step,
} from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { type IssuedCode, redeem, registerClient } from '../support/connection.ts';
import { GRANT_TYPE, preRegistered } from '../support/id-jag-system.ts';
import { type IdJagIssuer, startIdJagIssuer, validClaims } from '../support/id-jag-issuer.ts';
import {
  type Connector,
  createConnector,
  listGrants,
  readAudit,
} from '../support/management-api.ts';
import {
  authorizeUrl,
  type Client,
  discover,
  requestToken,
  type Server,
} from '../support/oauth.ts';
import {
  approveAs,
  OPENID_CLIENT,
  type OpenIdProvider,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import {
  type LogLine,
  type StoreKind,
  startSystem,
  STORES,
  type System,
} from '../support/system.ts';

const MAX_AGE = 900;
const LEVELS_BELOW = ['analytics', 'operations', 'admin'];
const APP: Client = {
  id: 'app',
  secret: 'the-secret-of-the-app-that-is-long-enough',
  method: 'client_secret_basic',
  redirectUri: 'https://app.example.com/callback',
};

const secondsAgo = (seconds: number) => Math.floor(Date.now() / 1000) - seconds;

type Running = {
  system: System;
  /** Needs a sign-in of the last 15 minutes, of the class `gold` or `silver`, for `full`. */
  provider: OpenIdProvider;
  connector: Connector;
  server: Server;
  client: Client;
  log: LogLine[];
};

/** `partner` is the issuer of a sign-in provider that needs the class `gold` for every level, and of assertions; `stranger` only of assertions. */
type Issuers = { partner: IdJagIssuer; stranger: IdJagIssuer };

function settingsFor(provider: OpenIdProvider, { partner, stranger }: Issuers) {
  const trusted = ({ issuer, jwk }: IdJagIssuer, id: string) => ({
    id,
    issuer,
    jwks: { keys: [jwk()] },
    clients: [APP.id],
  });
  return {
    developmentIdp: undefined,
    identityProviders: [
      {
        id: 'example',
        name: 'Example Corp',
        issuer: provider.issuer,
        ...OPENID_CLIENT,
        emailDomains: ['example.com'],
        stepUp: { levels: ['full'], maxAge: '15m', acrValues: ['gold', 'silver'] },
      },
      {
        id: 'partners',
        name: 'Partners',
        issuer: partner.issuer,
        ...OPENID_CLIENT,
        stepUp: { levels: ['analytics'], acrValues: ['gold'] },
      },
    ],
    entitlements: [
      { match: { emailDomain: 'example.com' }, level: 'full' },
      ...['partner', 'stranger'].map((id) => ({
        match: { anyone: true, provider: id },
        level: 'full',
      })),
    ],
    management: { administrators: [] },
    clients: { preRegistered: [preRegistered(APP)] },
    authorization: {
      trustedIssuers: [trusted(partner, 'partner'), trusted(stranger, 'stranger')],
    },
  };
}

function useStepUp(store: StoreKind) {
  let running: (Running & Issuers) | undefined;
  before(async () => {
    const [provider, partner, stranger] = await Promise.all([
      startOpenIdProvider(),
      startIdJagIssuer(),
      startIdJagIssuer(),
    ]);
    const log: LogLine[] = [];
    const system = await startSystem({
      store,
      log,
      settings: { GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
      file: settingsFor(provider, { partner, stranger }),
    });
    const connector = await createConnector(system, { level: 'full' });
    const { server } = await discover(connector.link);
    const client = await registerClient(server);
    running = { system, provider, connector, server, client, log, partner, stranger };
  });
  beforeEach(() => signInStates({}));
  afterEach(restoreClock);
  after(async () => {
    await running?.system.stop();
    await Promise.all(
      [running?.provider, running?.partner, running?.stranger].map((each) => each?.stop()),
    );
  });
  const setup = () => {
    if (!running) throw new Error('the system runs only during tests');
    return running;
  };

  /** What the provider's next ID tokens say about the sign-in. */
  function signInStates(claims: { auth_time?: number; acr?: string; email?: string }) {
    const person = { name: 'Ada', email: 'ada@example.com', email_verified: true };
    setup().provider.setBehaviour({ claims: { ...person, ...claims } });
  }
  const freshly = () => signInStates({ auth_time: secondsAgo(0), acr: 'silver' });

  async function openPage(browser = openBrowser([setup().system.auth]), link?: string) {
    const { server, client, connector } = setup();
    const resource = link ?? connector.link;
    const { url, verifier } = authorizeUrl(server, client, { resource, scope: 'full' });
    url.searchParams.set('login_hint', 'ada@example.com');
    const step = await browser.visit(url);
    const signedIn =
      step.kind === 'page' ? step : await browser.visit(setup().provider.approve(step.url));
    return { browser, page: requireConsentPage(signedIn), verifier };
  }

  /** Approves `full`; returns the authentication request, where the provider sends the browser. */
  async function approveFull(browser: Browser, page: Page) {
    const request = requireExternalRedirect(
      await browser.submit(page, { decision: 'approve', level: 'full' }),
    );
    expect(request.origin).to.equal(setup().provider.issuer);
    return { request, callback: setup().provider.approve(request) };
  }

  async function grantedScope(step: Step, verifier: string, link?: string) {
    const { server, client, connector } = setup();
    const callback = requireExternalRedirect(step);
    const code: IssuedCode = { link: link ?? connector.link, server, client, callback, verifier };
    return (await redeem(code)).body.scope;
  }

  const grantsOf = async (link: string) =>
    (await listGrants(setup().system, { connector: link.split('/').at(-2) ?? '' })).items;

  return { setup, signInStates, freshly, openPage, approveFull, grantedScope, grantsOf };
}

function requireConsentPage(step: Step): Page {
  const page = requirePage(step);
  if (!isConsentPage(page)) throw new Error(describePage(page));
  return page;
}

const levelsOn = (page: Page) =>
  page.forms.flatMap(({ controls }) =>
    controls.filter(({ name }) => name === 'level').map(({ value }) => value),
  );

for (const store of STORES)
  describe(`A sign-in for a level that needs it, on ${store}`, () => {
    const { setup, signInStates, freshly, openPage, approveFull, grantedScope } = useStepUp(store);

    it('approving the level requests max_age and acr_values, and continues when the provider confirms them', async () => {
      const { browser, page, verifier } = await openPage();
      const { request, callback } = await approveFull(browser, page);
      expect(Object.fromEntries(request.searchParams)).to.include({
        max_age: String(MAX_AGE),
        acr_values: 'gold silver',
        login_hint: 'ada@example.com',
      });
      expect(request.searchParams.has('prompt')).to.equal(false);
      freshly();
      const answer = await browser.visit(callback);
      expect(await grantedScope(answer, verifier)).to.equal('full offline_access');
    });

    it('CON-24 a response that arrives twice at the same time makes one grant', async () => {
      const { link } = await createConnector(setup().system, { level: 'full' });
      const { browser, page, verifier } = await openPage(undefined, link);
      const { callback } = await approveFull(browser, page);
      freshly();
      const steps = await Promise.all([1, 2, 3].map(() => browser.visit(callback)));
      const approved = steps.filter(({ kind }) => kind === 'redirect');
      expect(new Set(approved.map(({ url }) => url.href)).size).to.equal(1);
      expect(await grantedScope(approved[0] as Step, verifier, link)).to.include('full');
      signInStates({});
      const late = requirePage(await browser.visit(callback));
      expect(late.status, describePage(late)).to.equal(400);
    });
  });

describe('Levels that need a recent sign-in of a certain class', () => {
  const { setup, signInStates, freshly, openPage, approveFull, grantedScope, grantsOf } =
    useStepUp('sqlite');

  it('the page is shown without the sign-in, says which level needs it, and approves other levels without it', async () => {
    const { browser, page, verifier } = await openPage();
    expect(page.status).to.equal(200);
    expect(page.html.match(/You’ll sign in again to approve this/g)).to.have.length(1);
    expect(page.html.indexOf('You’ll sign in again to')).to.be.above(
      page.html.indexOf('value="full"'),
    );
    const answer = await browser.submit(page, { decision: 'approve', level: 'admin' });
    expect(await grantedScope(answer, verifier)).to.equal('admin offline_access');
  });

  const lacking: [what: string, claims: () => object, reason: string][] = [
    ['no auth_time', () => ({ acr: 'gold' }), 'auth_time_missing'],
    ['an old auth_time', () => ({ auth_time: secondsAgo(965), acr: 'gold' }), 'auth_time_too_old'],
    [
      'an auth_time to come',
      () => ({ auth_time: secondsAgo(-90), acr: 'gold' }),
      'auth_time_too_old',
    ],
    ['no acr', () => ({ auth_time: secondsAgo(0) }), 'acr_not_accepted'],
    ['another acr', () => ({ auth_time: secondsAgo(0), acr: 'gold silver' }), 'acr_not_accepted'],
  ];
  for (const [what, claims, reason] of lacking)
    it(`CON-23 a response with ${what} approves nothing, says so once, and leaves lower levels to choose`, async () => {
      const { system, log } = setup();
      const { link } = await createConnector(system, { level: 'full' });
      const { browser, page, verifier } = await openPage(undefined, link);
      const { callback } = await approveFull(browser, page);
      signInStates(claims());
      const again = requireConsentPage(await browser.visit(callback));
      expect(again.status).to.equal(403);
      expect(again.html).to.match(/role="alert"[^]*Nothing was approved/);
      expect(again.html).to.include('Less access is selected below');
      expect(levelsOn(again)).to.deep.equal([...LEVELS_BELOW, 'full']);
      expect(again.html).to.match(/value="admin"[^>]* checked/);
      expect(await grantsOf(link)).to.deep.equal([]);
      const isFailure = ({ event }: { event?: unknown }) => event === 'step_up_failed';
      expect((await readAudit(system)).findLast(isFailure)).to.include({ reason });
      expect(log.findLast((line) => line.reason === reason)).to.include({
        what: setup().provider.issuer,
      });
      const lower = await browser.submit(again, { decision: 'approve' });
      expect(await grantedScope(lower, verifier, link)).to.equal('admin offline_access');
    });

  it('CON-23 auth_time and acr of the UserInfo endpoint do not count', async () => {
    const { browser, page } = await openPage();
    const { callback } = await approveFull(browser, page);
    const said = { auth_time: secondsAgo(0), acr: 'gold', email: 'ada@example.com' };
    setup().provider.setBehaviour({
      userinfo: {
        status: 200,
        body: { sub: 'subject-1', name: 'Ada', email_verified: true, ...said },
      },
    });
    expect(requirePage(await browser.visit(callback)).status).to.equal(403);
  });

  it('CON-23 an error of the provider approves nothing, and the page offers the levels again', async () => {
    const { browser, page, verifier } = await openPage();
    const { callback } = await approveFull(browser, page);
    callback.searchParams.delete('code');
    callback.searchParams.set('error', 'unmet_authentication_requirements');
    const again = requireConsentPage(await browser.visit(callback));
    expect(again.status).to.equal(403);
    expect(again.html).to.include('which you didn’t complete');
    freshly();
    const retry = await approveFull(browser, again);
    const answer = await browser.visit(retry.callback);
    expect(await grantedScope(answer, verifier)).to.include('full');
  });

  it('CON-24 another person who signs in sees the page again, and what the first chose is not approved', async () => {
    const { link } = await createConnector(setup().system, { level: 'full' });
    const { browser, page } = await openPage(undefined, link);
    const { request } = await approveFull(browser, page);
    signInStates({ auth_time: secondsAgo(0), acr: 'gold', email: 'grace@example.com' });
    const again = requireConsentPage(await browser.visit(approveAs('subject-2', request)));
    expect(again.status).to.equal(409);
    expect(again.html).to.include('grace@example.com').and.not.include('ada@example.com');
    expect(await grantsOf(link)).to.deep.equal([]);
  });

  it('a sign-in of this authorization that meets it is not repeated', async () => {
    freshly();
    const { browser, page, verifier } = await openPage();
    expect(page.html).to.not.include('you sign in again');
    const answer = await browser.submit(page, { decision: 'approve', level: 'full' });
    expect(await grantedScope(answer, verifier)).to.include('full');
  });

  it('the sign-in does not count longer than maxAge and a minute', async () => {
    signInStates({ auth_time: secondsAgo(MAX_AGE - 10), acr: 'gold' });
    const { browser, page } = await openPage();
    expect(page.html).to.not.include('you sign in again');
    advanceClock(75);
    await approveFull(browser, page);
  });

  it('CON-24 the sign-in of one authorization does not count in another one of the same browser', async () => {
    const { browser, page } = await openPage();
    const other = await openPage(browser);
    const { callback } = await approveFull(browser, page);
    freshly();
    requireExternalRedirect(await browser.visit(callback));
    await approveFull(browser, other.page);
  });

  it('CON-07 if the page has changed meanwhile, it is shown again, and approving then needs no other sign-in', async () => {
    const { system } = setup();
    const { id, link } = await createConnector(system, { level: 'full' });
    const { browser, page, verifier } = await openPage(undefined, link);
    const { callback } = await approveFull(browser, page);
    signInStates({ auth_time: secondsAgo(0), acr: 'gold', email: 'ada.l@example.com' });
    const again = requireConsentPage(await browser.visit(callback));
    expect(again.status).to.equal(409);
    expect((await listGrants(system, { connector: id })).items).to.deep.equal([]);
    const answer = await browser.submit(again, { decision: 'approve', level: 'full' });
    expect(await grantedScope(answer, verifier, link)).to.include('full');
  });

  it('CON-19 a Deny in another tab is not undone by the response of the provider', async () => {
    const { link } = await createConnector(setup().system, { level: 'full' });
    const { browser, page } = await openPage(undefined, link);
    const { callback } = await approveFull(browser, page);
    requireExternalRedirect(await browser.submit(page, { decision: 'deny' }));
    freshly();
    const done = requirePage(await browser.visit(callback));
    expect(isConsentPage(done)).to.equal(false);
    expect(await grantsOf(link)).to.deep.equal([]);
  });

  it('CON-19 neither a second submission nor a refresh raises a lower level to one that needs the sign-in', async () => {
    const { connector, server, client } = setup();
    const { browser, page, verifier } = await openPage();
    const answer = await browser.submit(page, { decision: 'approve', level: 'admin' });
    const second = await browser.submit(page, { decision: 'approve', level: 'full' });
    expect(requirePage(second).status).to.equal(400);
    const callback = requireExternalRedirect(answer);
    const { body } = await redeem({ link: connector.link, server, client, callback, verifier });
    const refreshed = await requestToken(server, client, {
      grant_type: 'refresh_token',
      refresh_token: body.refresh_token,
      scope: 'full offline_access',
    });
    expect(refreshed.body.scope).to.equal('admin offline_access');
  });

  it('CON-24 a connection gets a level that needs the sign-in on the account page only after it', async () => {
    const { connector, server, client } = setup();
    const { browser, page, verifier } = await openPage();
    const callback = requireExternalRedirect(
      await browser.submit(page, { decision: 'approve', level: 'admin' }),
    );
    const { body } = await redeem({ link: connector.link, server, client, callback, verifier });
    const account = await browser.visit(new URL('/account', setup().system.auth));
    const consent = await openRaisePage(
      browser,
      requirePage(account),
      String(decodeJwt(String(body.access_token)).grant_id),
    );
    expect(levelsOn(consent)).to.deep.equal(['full']);
    const first = await approveFull(browser, consent);
    const insufficient = requireConsentPage(await browser.visit(first.callback));
    expect(insufficient.status).to.equal(403);
    const scopeNow = async (token: string | undefined) =>
      (await requestToken(server, client, { grant_type: 'refresh_token', refresh_token: token }))
        .body;
    const before = await scopeNow(body.refresh_token);
    expect(before.scope).to.equal('admin offline_access');
    const second = await approveFull(browser, insufficient);
    freshly();
    expect(requirePage(await browser.visit(second.callback)).url.pathname).to.equal('/account');
    expect((await scopeNow(before.refresh_token)).scope).to.equal('full offline_access');
  });

  const REFUSED = ID_JAG_ERRORS.step_up_required.description;
  const asserted: [from: keyof Issuers, claims: () => object, result: string][] = [
    ['stranger', () => ({}), REFUSED],
    ['stranger', () => ({ auth_time: secondsAgo(5), acr: 'gold' }), 'full'],
    ['stranger', () => ({ auth_time: secondsAgo(965), acr: 'gold' }), 'admin'],
    ['stranger', () => ({ auth_time: secondsAgo(5), acr: 'silver' }), REFUSED],
    ['partner', () => ({ acr: 'gold' }), 'full'],
    ['partner', () => ({ acr: 'bronze', auth_time: secondsAgo(5) }), REFUSED],
  ];
  it('EMA-08 an assertion gets the highest level whose requirements its auth_time and acr meet', async () => {
    const { system, server, connector, ...issuers } = setup();
    for (const [from, claims, result] of asserted) {
      const parties = { aud: system.auth, client_id: APP.id, resource: connector.link, sub: 'eve' };
      const assertion = await issuers[from].sign({
        ...validClaims(issuers[from].issuer),
        ...parties,
        ...claims(),
      });
      const { body } = await requestToken(server, APP, { grant_type: GRANT_TYPE, assertion });
      const given = body.scope ?? body.error_description;
      expect(given, JSON.stringify([from, claims()])).to.equal(result);
    }
  });
});
