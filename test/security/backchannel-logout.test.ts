// Logout tokens of identity providers (OpenID Connect Back-Channel Logout 1.0).
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { decodeJwt, type JWTPayload } from 'jose';
import { openRaisePage } from '../support/account-page.ts';
import {
  type Browser,
  isConsentPage,
  openBrowser,
  type Page,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { advanceClock, freezeClock, restoreClock } from '../support/clock.ts';
import { redeem } from '../support/connection.ts';
import { isProviderChoicePage, useIdentityProviders } from '../support/identity-providers.ts';
import { readAudit, showGrant } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import {
  approveAs,
  LOGOUT_EVENT,
  type LogoutTokenOptions,
  type OpenIdProvider,
  OPENID_CLIENT,
  openIdSettings,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { STORES, startSystem } from '../support/system.ts';

const FORM = 'application/x-www-form-urlencoded';

async function post(url: string, token: string, type = FORM) {
  const body = new URLSearchParams({ logout_token: token }).toString();
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': type, accept: 'text/html' },
    body,
  });
  const text = await response.text();
  const { error } = text === '' ? {} : JSON.parse(text);
  return { status: response.status, error, cache: response.headers.get('cache-control') };
}

type ProviderId = 'example' | 'partners';

describe('A logout token', () => {
  const { setup, newBrowser, startAuthorization, chooseProvider } = useIdentityProviders();
  afterEach(restoreClock);

  const addressOf = (id: string) => `${setup().system.auth}/backchannel-logout/${id}`;

  async function signIn(id: ProviderId, sub: string, sid?: string) {
    describePerson(setup()[id], sub, sid);
    const browser = newBrowser();
    const { step, verifier } = await startAuthorization(browser);
    const departure = requireExternalRedirect(await chooseProvider(browser, requirePage(step), id));
    const page = requirePage(await browser.visit(approveAs(sub, departure)));
    expect(isConsentPage(page)).to.equal(true);
    return { browser, page, verifier };
  }

  async function approve(browser: Browser, page: Page, verifier: string, level = 'operations') {
    const { connector, server, client } = setup();
    const callback = requireExternalRedirect(
      await browser.submit(page, { decision: 'approve', level, stay: 'on' }),
    );
    const code = { link: connector.link, server, client, callback, verifier };
    const { access_token: token = '', refresh_token: refreshToken = '' } = (await redeem(code))
      .body;
    return { token, refreshToken, grant: String(decodeJwt(token).grant_id) };
  }

  const isSignedIn = async (browser: Browser) =>
    isConsentPage(requirePage((await startAuthorization(browser)).step));

  // Each test has its own people, because moving the clock back would be a sign-in before the logout.
  const logout = async (id: ProviderId, claims: JWTPayload, options?: LogoutTokenOptions) =>
    post(addressOf(id), await setup()[id].logoutToken(claims, options));

  const audited = async (event: string, account: string) =>
    (await readAudit(setup().system)).filter(
      (item) => item.event === event && item.account === account,
    );

  it('BCL-01 a token that is forged, has expired, has a nonce or is for another client is refused, and nothing changes', async () => {
    const { browser } = await signIn('example', 'ada-1', 'session-of-ada');
    const sub = 'ada-1';
    const now = Math.floor(Date.now() / 1000);
    const { partners } = setup();
    const refused: [what: string, claims: JWTPayload, options?: LogoutTokenOptions][] = [
      ['a key that is not published', { sub }, { signature: 'stranger' }],
      ['a key id that is not published', { sub }, { signature: 'stranger', kid: 'unknown' }],
      ['no signature', { sub }, { signature: 'none' }],
      ['a symmetric signature', { sub }, { signature: 'secret' }],
      ['another type', { sub }, { typ: 'at+jwt' }],
      ['another issuer', { sub, iss: partners.issuer }],
      ['another audience', { sub, aud: 'another-client' }],
      ['a nonce', { sub, nonce: 'n' }],
      ['an empty nonce', { sub, nonce: '' }],
      ['no events', { sub, events: undefined }],
      ['another event', { sub, events: { 'https://example.com/event': {} } }],
      ['an event that is not an object', { sub, events: { [LOGOUT_EVENT]: true } }],
      ['no jti', { sub, jti: undefined }],
      ['no iat', { sub, iat: undefined }],
      ['an iat in the future', { sub, iat: now + 300, exp: now + 420 }],
      ['an iat two hours ago', { sub, iat: now - 7200 }],
      ['no exp', { sub, exp: undefined }],
      ['an exp in the past', { sub, exp: now - 120 }],
      ['neither sub nor sid', {}],
      ['a sub that is no text', { sub: 7 as unknown as string }],
      ['a sid that is no text', { sub, sid: ['session-of-ada'] }],
    ];
    for (const [what, claims, options] of refused)
      expect(await logout('example', claims, options), what).to.deep.equal({
        status: 400,
        error: 'invalid_request',
        cache: 'no-store',
      });
    expect(await isSignedIn(browser)).to.equal(true);
  });

  it('BCL-01 a request without a token, with another content type or with a large body is refused', async () => {
    const token = await setup().example.logoutToken({ sub: 'ada-2' });
    const url = addressOf('example');
    expect(await post(url, '')).to.include({ status: 400, error: 'invalid_request' });
    expect(await post(url, 'not a token')).to.include({ status: 400, error: 'invalid_request' });
    expect(await post(url, token, 'application/jwt')).to.include({ status: 415 });
    expect(await post(url, token.padEnd(17_000, '.'))).to.include({ status: 413 });
    expect((await fetch(url)).status).to.equal(405);
  });

  it("BCL-01 a token is accepted at the address of its provider only, and there is no address for GitHub's", async () => {
    const token = await setup().example.logoutToken({ sub: 'nobody-here' });
    const { auth } = setup().system;
    expect(await post(`${auth}/backchannel-logout`, token)).to.include({ status: 404 });
    for (const [id, status] of [
      ['partners', 400],
      ['github', 404],
      ['unknown', 404],
      ['example', 200],
    ] as const)
      expect((await post(addressOf(id), token)).status, id).to.equal(status);
  });

  it('BCL-02 a token counts once, and its response is not cached', async () => {
    const token = await setup().example.logoutToken({ sub: 'grace-4' });
    expect(await post(addressOf('example'), token)).to.include({ status: 200, cache: 'no-store' });
    advanceClock(2);
    const { browser } = await signIn('example', 'grace-4');
    expect(await post(addressOf('example'), token)).to.include({ status: 400 });
    advanceClock(110);
    expect(await post(addressOf('example'), token)).to.include({ status: 400 });
    expect(await isSignedIn(browser)).to.equal(true);
  });

  it("BCL-03 a token with sub ends the person's sessions in every browser, on the account page too, and no other person's", async () => {
    const first = await signIn('example', 'ada-5');
    const second = await signIn('example', 'ada-5', 'second-session');
    const other = await signIn('example', 'grace-5');
    const connection = await approve(second.browser, second.page, second.verifier);
    expect((await logout('example', { sub: 'ada-5' })).status).to.equal(200);
    advanceClock(2);
    for (const { browser } of [first, second]) {
      expect(await isSignedIn(browser)).to.equal(false);
      const account = await browser.visit(new URL('/account', setup().system.auth));
      expect(isProviderChoicePage(requirePage(account))).to.equal(true);
    }
    expect(await isSignedIn(other.browser)).to.equal(true);
    const { connector, system } = setup();
    expect(await isAccepted(connector.link, connection.token)).to.equal(true);
    const { sub } = decodeJwt(connection.token);
    const [item] = await audited('backchannel_logout', String(sub));
    expect(item).to.deep.include({ outcome: 'done', arguments: { sessions: 'all' } });
    expect((await showGrant(system, connection.grant)).state).to.equal('active');
    expect(await isSignedIn((await signIn('example', 'ada-5')).browser)).to.equal(true);
  });

  it('BCL-03 a token whose issuer has a slash more than the ID tokens ends the same sessions', async () => {
    const { browser } = await signIn('example', 'ada-slash', 'session-slash');
    advanceClock(2);
    const second = await signIn('example', 'ada-slash', 'second-slash');
    const iss = `${setup().example.issuer}/`;
    const sub = 'ada-slash';
    expect((await logout('example', { iss, sid: 'session-slash' })).status).to.equal(200);
    advanceClock(2);
    expect(await isSignedIn(browser)).to.equal(false);
    expect(await isSignedIn(second.browser)).to.equal(true);
    expect((await logout('example', { iss, sub })).status).to.equal(200);
    advanceClock(2);
    expect(await isSignedIn(second.browser)).to.equal(false);
  });

  it('BCL-03 a page opened before the logout approves nothing', async () => {
    const { browser, page } = await signIn('example', 'ada-6');
    expect((await logout('example', { sub: 'ada-6' })).status).to.equal(200);
    const step = await browser.submit(page, { decision: 'approve', level: 'operations' });
    expect(isProviderChoicePage(requirePage(step))).to.equal(true);
  });

  it('BCL-03 a page for more access that was opened before the logout raises nothing', async () => {
    const { browser, page, verifier } = await signIn('example', 'ada-15');
    const { grant } = await approve(browser, page, verifier, 'analytics');
    const account = requirePage(await browser.visit(new URL('/account', setup().system.auth)));
    const raise = await openRaisePage(browser, account, grant);
    expect(isConsentPage(raise)).to.equal(true);
    expect((await logout('example', { sub: 'ada-15' })).status).to.equal(200);
    const answer = await browser.submit(raise, { decision: 'approve', level: 'operations' });
    expect(requirePage(answer).status).to.equal(400);
    expect(isConsentPage(requirePage(await browser.visit(raise.url)))).to.equal(false);
    expect((await showGrant(setup().system, grant)).level).to.equal('analytics');
  });

  it('BCL-03 a token with sid alone ends that session, and the sign-ins that still belong to it', async () => {
    const one = await signIn('example', 'ada-7', 'one');
    advanceClock(2);
    const two = await signIn('example', 'ada-7', 'two');
    expect((await logout('example', { sid: 'one' })).status).to.equal(200);
    expect(await isSignedIn(one.browser)).to.equal(false);
    expect(await isSignedIn(two.browser)).to.equal(true);
    const late = await signIn('example', 'ada-7', 'one').catch(String);
    expect(late).to.match(/expected false to equal true/);
    expect((await logout('partners', { sid: 'two' })).status).to.equal(200);
    expect(await isSignedIn(two.browser)).to.equal(true);
  });

  it('BCL-03 a token with sid and sub ends that session only, and no connection', async () => {
    const one = await signIn('example', 'ada-13', 'first');
    const connection = await approve(one.browser, one.page, one.verifier);
    advanceClock(2);
    const two = await signIn('example', 'ada-13', 'second');
    expect((await logout('example', { sub: 'ada-13', sid: 'first' })).status).to.equal(200);
    expect(await isSignedIn(one.browser)).to.equal(false);
    expect(await isSignedIn(two.browser)).to.equal(true);
    expect(await isAccepted(setup().connector.link, connection.token)).to.equal(true);
    const items = await audited('backchannel_logout', String(decodeJwt(connection.token).sub));
    expect(items.map((item) => item.arguments)).to.deep.equal([{ sessions: 'one' }]);
  });

  it("BCL-03 a token ends the administrator's session in the console", async () => {
    const { example, system } = setup();
    const signInToConsole = async (sid: string) => {
      describePerson(example, 'administrator', sid);
      const browser = openBrowser([system.auth, system.management]);
      const choice = requirePage(await browser.visit(`${system.management}/console/connectors`));
      const [link] = /\/console\/sign-in\/example/.exec(choice.html) ?? [];
      const departure = await browser.visit(new URL(link ?? '', system.management));
      await browser.visit(approveAs('administrator', requireExternalRedirect(departure)));
      return browser;
    };
    const statusOf = async (browser: Browser) => {
      const page = requirePage(await browser.visit(`${system.management}/console/connectors`));
      return /sign-in\/example/.test(page.html) ? 'signed out' : 'signed in';
    };
    const one = await signInToConsole('console-one');
    advanceClock(2);
    const two = await signInToConsole('console-two');
    expect([await statusOf(one), await statusOf(two)]).to.deep.equal(['signed in', 'signed in']);
    expect((await logout('example', { sid: 'console-one' })).status).to.equal(200);
    expect([await statusOf(one), await statusOf(two)]).to.deep.equal(['signed out', 'signed in']);
    expect((await logout('example', { sub: 'administrator' })).status).to.equal(200);
    expect(await statusOf(two)).to.equal('signed out');
    // Within the second of that logout, if the clock allows.
    const three = await signInToConsole('console-three');
    expect(await statusOf(three)).to.equal('signed in');
    expect((await logout('example', { sid: 'console-three' })).status).to.equal(200);
    expect(await statusOf(three)).to.equal('signed out');
  });

  it('BCL-04 with backchannelLogout: connections, a token with sub also ends the connections of the person', async () => {
    const { connector, system, server, client } = setup();
    const ada = await signIn('partners', 'ada-9', 'one');
    const connection = await approve(ada.browser, ada.page, ada.verifier);
    const other = await signIn('partners', 'grace-9');
    const others = await approve(other.browser, other.page, other.verifier);
    expect((await logout('partners', { sid: 'one' })).status).to.equal(200);
    expect(await isAccepted(connector.link, connection.token)).to.equal(true);
    expect((await logout('partners', { sub: 'ada-9' })).status).to.equal(200);
    expect(await isAccepted(connector.link, connection.token)).to.equal(false);
    expect(await isAccepted(connector.link, others.token)).to.equal(true);
    const refreshed = await refresh(server, client, connection.refreshToken);
    expect([refreshed.status, refreshed.body.error]).to.deep.equal([400, 'invalid_grant']);
    const reason = 'identity_provider_ended';
    expect(await showGrant(system, connection.grant)).to.include({ state: 'ended', reason });
    const items = await audited('grant_ended', String(decodeJwt(connection.token).sub));
    expect(items.map((item) => [item.grantId, item.reason])).to.deep.equal([
      [connection.grant, reason],
    ]);
    advanceClock(2);
    describePerson(setup().partners, 'ada-9');
    const choice = requirePage(await ada.browser.visit(new URL('/account', system.auth)));
    const departure = await chooseProvider(ada.browser, choice, 'partners');
    const page = await ada.browser.visit(approveAs('ada-9', requireExternalRedirect(departure)));
    expect(requirePage(page).html).to.include('you were signed out of it everywhere');
  });

  it('BCL-04 with backchannelLogout: connections, a token with sid and sub ends that session and all connections of the person', async () => {
    const { connector, system } = setup();
    const one = await signIn('partners', 'ada-14', 'here');
    const before = await approve(one.browser, one.page, one.verifier);
    advanceClock(2);
    const two = await signIn('partners', 'ada-14', 'there');
    const other = await approve(two.browser, two.page, two.verifier);
    expect((await logout('partners', { sub: 'ada-14', sid: 'here' })).status).to.equal(200);
    const reason = 'identity_provider_ended';
    for (const { token, grant } of [before, other]) {
      expect(await isAccepted(connector.link, token)).to.equal(false);
      expect(await showGrant(system, grant)).to.include({ state: 'ended', reason });
    }
    expect(await isSignedIn(one.browser)).to.equal(false);
    expect(await isSignedIn(two.browser)).to.equal(true);
    advanceClock(2);
    const { step, verifier } = await startAuthorization(two.browser);
    const after = await approve(two.browser, requirePage(step), verifier);
    expect(await isAccepted(connector.link, after.token)).to.equal(true);
  });

  it('BCL-05 while the logout cannot be recorded, a token gets 503 and can be sent again', async () => {
    const { example, system } = setup();
    const { browser } = await signIn('example', 'ada-12');
    const token = await example.logoutToken({ sub: 'ada-12' });
    const database = new DatabaseSync(system.storeAddress.slice('sqlite:'.length));
    try {
      database.exec(
        `CREATE TRIGGER refuse BEFORE INSERT ON log_entry BEGIN SELECT RAISE(FAIL, 'disk I/O error'); END`,
      );
      expect(await post(addressOf('example'), token)).to.include({ status: 503 });
      database.exec('DROP TRIGGER refuse');
      expect(await post(addressOf('example'), token)).to.include({ status: 200 });
      expect(await isSignedIn(browser)).to.equal(false);
    } finally {
      database.close();
    }
  });

  it('BCL-05 while the keys of the provider cannot be fetched, a token changes nothing and can be sent again', async () => {
    const { example } = setup();
    const token = await example.logoutToken(
      { sub: 'ada-10' },
      { kid: 'two', signature: 'stranger' },
    );
    const { browser } = await signIn('example', 'ada-10');
    // Outlasts the time in which an unknown key is not fetched again.
    advanceClock(60);
    example.setBehaviour({ responses: { '/jwks': (_req, res) => res.writeHead(500).end() } });
    const refused = await post(addressOf('example'), token);
    expect(refused).to.deep.equal({
      status: 503,
      error: 'temporarily_unavailable',
      cache: 'no-store',
    });
    const away = await example.logoutToken({ sub: 'ada-10' });
    expect(await post(addressOf('away'), away)).to.include({ status: 503 });
    expect(await isSignedIn(browser)).to.equal(true);
    const keys = JSON.stringify({ keys: [example.strangerJwk] });
    example.setBehaviour({
      responses: {
        '/jwks': (_req, res) =>
          res.writeHead(200, { 'content-type': 'application/json' }).end(keys),
      },
    });
    expect(await post(addressOf('example'), token)).to.include({ status: 200 });
    expect(await isSignedIn(browser)).to.equal(false);
  });
});

function describePerson(provider: OpenIdProvider, sub: string, sid?: string): void {
  const claims = { name: sub, email: `${sub}@example.com`, email_verified: true };
  provider.setBehaviour({ claims: { ...claims, ...(sid === undefined ? {} : { sid }) } });
}

describe('The address for logout tokens', () => {
  let provider: OpenIdProvider;
  before(async () => {
    provider = await startOpenIdProvider();
    freezeClock();
  });
  after(async () => {
    restoreClock();
    await provider.stop();
  });

  for (const store of STORES)
    it(`BCL-02 BCL-05 accepts one of several equal tokens, fetches keys once, and limits refused tokens only, on ${store}`, async () => {
      const file = { limits: { wrongTokens: { perAddress: '3/10m' } } };
      const system = await startSystem({ ...openIdSettings(provider, file), store });
      const url = `${system.auth}/backchannel-logout`;
      try {
        const token = await provider.logoutToken({ sub: 'ada', aud: [OPENID_CLIENT.clientId] });
        const equal = await Promise.all(Array.from({ length: 20 }, () => post(url, token)));
        const statuses = equal.map(({ status }) => status).toSorted();
        expect(statuses).to.deep.equal([200, ...Array(19).fill(400)]);
        const fetched = provider.requests.filter((path) => path === '/jwks').length;
        for (const status of [400, 400, 400, 429]) {
          const forged = await provider.logoutToken({ sub: 'ada' }, { kid: `made-up-${status}` });
          expect((await post(url, forged)).status).to.equal(status);
        }
        expect(provider.requests.filter((path) => path === '/jwks')).to.have.length(fetched);
        const next = await provider.logoutToken({ sub: 'ada' });
        expect((await post(url, next)).status).to.equal(200);
      } finally {
        await system.stop();
      }
    });
});
