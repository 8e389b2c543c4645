// Signing in at the identity provider, seen from outside (OpenID Connect Core section 3.1.3.7, RFC 9700 section 4.7): what comes back counts in one browser, once.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector, type Connector } from '../support/administrator.ts';
import {
  asksConsent,
  type Browser,
  describePage,
  openBrowser,
  type Page,
  requireDeparture,
  requirePage,
} from '../support/browser.ts';
import { moveClock, restoreClock } from '../support/clock.ts';
import { redeem, registerClient } from '../support/connection.ts';
import { authorizeUrl, type Client, discover, type Server } from '../support/oauth.ts';
import {
  type Behaviour,
  type OpenIdProvider,
  signingInAt,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { rawRequest } from '../support/raw-request.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { startSystem, type System } from '../support/system.ts';

const PERSON = {
  name: 'Ada',
  email: 'ada@example.com',
  email_verified: true,
};

describe('What comes back from the identity provider', () => {
  let provider: OpenIdProvider;
  let system: System;
  let connector: Connector;
  let server: Server;
  let client: Client;
  before(async () => {
    provider = await startOpenIdProvider();
    const entitlements = [{ match: { emailDomain: 'example.com' }, level: 'full' }];
    system = await startSystem(signingInAt(provider, { entitlements }));
    connector = await createConnector(system);
    ({ server } = await discover(connector.link));
    client = await registerClient(server);
  });
  beforeEach(() => provider.behave({ claims: PERSON }));
  afterEach(restoreClock);
  after(async () => {
    await system?.stop();
    await provider.stop();
  });

  const newBrowser = () => openBrowser([system.auth]);

  /** To the identity provider; `callback` is where it sends the browser afterwards. */
  async function leave(browser: Browser, more: Record<string, string> = {}) {
    const { url, verifier } = authorizeUrl(server, client, { resource: connector.link });
    const departure = requireDeparture(await browser.visit(url));
    const callback = provider.approve(departure);
    for (const [name, value] of Object.entries(more)) callback.searchParams.set(name, value);
    const flow = browser.visited.at(-1)?.href ?? '';
    return { callback, departure, verifier, flow };
  }

  async function expectRefused(browser: Browser, callback: URL, status = 400): Promise<Page> {
    const page = requirePage(await browser.visit(callback));
    expect(page.status, describePage(page)).to.equal(status);
    expect(asksConsent(page)).to.equal(false);
    return page;
  }

  /** Whether the browser would go to the identity provider again. */
  async function isSignedIn(browser: Browser): Promise<boolean> {
    const { url } = authorizeUrl(server, client, { resource: connector.link });
    return (await browser.visit(url)).kind === 'page';
  }

  it('IDP-01 IDP-09 counts only in the browser that left, whoever is signed in elsewhere', async () => {
    const attacker = newBrowser();
    const { callback, departure } = await leave(attacker);
    const victim = newBrowser();
    const own = await leave(victim);
    expect(asksConsent(requirePage(await victim.visit(own.callback)))).to.equal(true);
    const before = JSON.stringify(victim.jar);
    await expectRefused(victim, callback);
    expect(JSON.stringify(victim.jar)).to.equal(before);
    expect(await isSignedIn(victim)).to.equal(true);
    const stranger = newBrowser();
    await expectRefused(stranger, callback);
    expect(await isSignedIn(stranger)).to.equal(false);
    provider.approve(departure);
    expect(asksConsent(requirePage(await attacker.visit(callback)))).to.equal(true);
  });

  it('IDP-01 counts once, one of two at a time, and for ten minutes', async () => {
    const browser = newBrowser();
    const { callback } = await leave(browser);
    const exchanged = provider.exchanges.length;
    const pages = await Promise.all([1, 2].map(() => browser.visit(callback)));
    const statuses = pages.map((page) => requirePage(page).status);
    expect(statuses.toSorted()).to.deep.equal([200, 400]);
    await expectRefused(browser, callback);
    expect(provider.exchanges).to.have.length(exchanged + 1);

    const late = newBrowser();
    const trip = await leave(late);
    moveClock(601);
    await expectRefused(late, trip.callback);
    expect(provider.exchanges).to.have.length(exchanged + 1);
  });

  it('IDP-01 is waited for in one record of each flow, however often its page is loaded', async () => {
    const browser = newBrowser();
    const { flow } = await leave(browser);
    const before = await countStoredKeys(system);
    const size = async () => {
      const records = await readStoredBytes(system.storeAddress, 'sign-in:');
      return records.reduce((sum, { bytes }) => sum + bytes.length, 0);
    };
    const sizes: number[] = [];
    for (let time = 0; time < 12; time += 1) {
      requireDeparture(await browser.visit(flow));
      sizes.push(await size());
    }
    expect(await countStoredKeys(system)).to.deep.equal(before);
    expect(sizes.at(-1)).to.be.lessThan(Number(sizes[6]) + 50);
  });

  it('IDP-01 is waited for in one record of each browser outside of flows, in each of its tabs', async () => {
    const browser = newBrowser();
    const first = requireDeparture(await browser.visit(`${system.auth}/account`));
    const before = await countStoredKeys(system);
    for (let time = 0; time < 3; time += 1)
      requireDeparture(await browser.visit(`${system.auth}/account`));
    expect(await countStoredKeys(system)).to.deep.equal(before);
    const page = requirePage(await browser.visit(provider.approve(first)));
    expect(page.url.pathname, describePage(page)).to.equal('/account');
    expect(page.status).to.equal(200);
  });

  it('IDP-01 counts in the tab from before a reload too, once, and for its own ten minutes', async () => {
    const browser = newBrowser();
    const { departure, flow } = await leave(browser);
    requireDeparture(await browser.visit(flow));
    const first = provider.approve(departure);
    expect(asksConsent(requirePage(await browser.visit(first)))).to.equal(true);
    await expectRefused(browser, first);

    const patient = newBrowser();
    const early = await leave(patient);
    moveClock(400);
    const reloaded = requireDeparture(await patient.visit(early.flow));
    expect(reloaded.search).not.to.equal(early.departure.search);
    moveClock(201);
    await expectRefused(patient, provider.approve(early.departure));
    const late = provider.approve(reloaded);
    expect(asksConsent(requirePage(await patient.visit(late)))).to.equal(true);
  });

  it('IDP-01 has a state that nobody guesses', async () => {
    const states = [];
    for (let time = 0; time < 3; time += 1)
      states.push((await leave(newBrowser())).callback.searchParams.get('state') ?? '');
    for (const state of states) expect(state.split('.')[1]).to.have.length.of.at.least(43);
    expect(new Set(states).size).to.equal(3);
    const browser = newBrowser();
    const { callback } = await leave(browser);
    const [flow] = (callback.searchParams.get('state') ?? '').split('.');
    for (const state of [`${flow}.${'x'.repeat(43)}`, `${flow}.`, String(flow), '', '../x']) {
      callback.searchParams.set('state', state);
      await expectRefused(browser, callback);
    }
  });

  const past = Math.floor(Date.now() / 1000) - 600;
  const FORGERIES: Record<string, Behaviour> = {
    'with another nonce': { claims: { nonce: 'another' } },
    'without a nonce': { claims: { nonce: undefined } },
    'for another client': { claims: { aud: 'another' } },
    'for us and another, at the other’s request': {
      claims: { aud: ['gatehouse', 'another'], azp: 'another' },
    },
    'at another’s request': { claims: { azp: 'another' } },
    'from another issuer': { claims: { iss: 'https://evil.example' } },
    'that expired': { claims: { exp: past, iat: past - 300 } },
    'without an end': { claims: { exp: undefined } },
    'without a subject': { claims: { sub: undefined } },
    'without a signature': { signature: 'none' },
    'signed by another key': { signature: 'stranger' },
    'signed with our secret': { signature: 'secret' },
    'that is no token': { tokens: { id_token: 'x.y.z' } },
    'that is not there': { tokens: { id_token: undefined } },
  };
  for (const [what, behaviour] of Object.entries(FORGERIES)) {
    it(`IDP-02 signs nobody in with an ID token ${what}`, async () => {
      const browser = newBrowser();
      const { callback } = await leave(browser);
      const { account: accounts, session: sessions } = await countStoredKeys(system);
      provider.behave({ ...behaviour, claims: { ...PERSON, ...behaviour.claims } });
      await expectRefused(browser, callback);
      const after = await countStoredKeys(system);
      expect([after.account, after.session]).to.deep.equal([accounts, sessions]);
      expect(await isSignedIn(browser)).to.equal(false);
    });
  }

  it('IDP-03 is refused when it names another issuer, before any code is sent there', async () => {
    const browser = newBrowser();
    const exchanged = provider.exchanges.length;
    await expectRefused(browser, (await leave(browser, { iss: 'https://evil.example' })).callback);
    expect(provider.exchanges).to.have.length(exchanged);
    const right = await leave(browser, { iss: provider.issuer });
    expect(asksConsent(requirePage(await browser.visit(right.callback)))).to.equal(true);
  });

  /** The subject of a token for whoever the claims say. */
  async function subjectOf(claims: object): Promise<unknown> {
    provider.behave({ claims: { ...PERSON, ...claims } });
    const browser = newBrowser();
    const { callback, verifier } = await leave(browser);
    const page = requirePage(await browser.visit(callback));
    const answer = requireDeparture(await browser.submit(page, { decision: 'approve' }));
    const code = { link: connector.link, server, client, callback: answer, verifier };
    const { body } = await redeem(code);
    return decodeJwt(body.access_token ?? '').sub;
  }

  it('IDP-04 makes one account of a subject, never of an address', async () => {
    const one = await subjectOf({ sub: 'one' });
    expect(await subjectOf({ sub: 'one', email: 'new@example.com' })).to.equal(one);
    expect(await subjectOf({ sub: 'two' })).to.not.equal(one);
    expect(String(one)).to.not.match(/one|ada/);
  });

  it('IDP-05 leaves none of its tokens with us or the app', async () => {
    const canaries = { access_token: 'canary-access-token', refresh_token: 'canary-refresh-token' };
    provider.behave({ claims: PERSON, tokens: canaries });
    const browser = newBrowser();
    const { callback, verifier } = await leave(browser);
    const page = requirePage(await browser.visit(callback));
    const answer = requireDeparture(await browser.submit(page, { decision: 'approve' }));
    const code = { link: connector.link, server, client, callback: answer, verifier };
    const { body } = await redeem(code);
    const stored = await readStoredBytes(system.storeAddress);
    const everything = [page.html, answer.href, JSON.stringify(body), JSON.stringify(browser.jar)];
    for (const text of [...everything, ...stored.map(({ bytes }) => bytes.toString('latin1'))])
      expect(text).to.not.match(/canary/);
    expect(decodeJwt(body.access_token ?? '')).to.not.have.any.keys('email', 'name');
  });

  it('IDP-06 that is an error is told in our words, and may be tried again', async () => {
    const browser = newBrowser();
    const { callback, flow } = await leave(browser);
    callback.searchParams.delete('code');
    callback.searchParams.set('error', '<script>alert(1)</script>');
    callback.searchParams.set('error_description', '"><img src=x onerror=alert(1)>canary');
    callback.searchParams.set('error_uri', 'javascript:alert(1)');
    const page = await expectRefused(browser, callback);
    expect(page.html).to.not.match(/<script|<img|javascript:|canary|alert/);
    expect(requireDeparture(await browser.visit(flow)).origin).to.equal(provider.issuer);
  });

  it('IDP-07 comes to the address of the settings, whatever a request said', async () => {
    const browser = newBrowser();
    const { callback } = await leave(browser);
    const { status } = await rawRequest(system.auth, {
      path: callback.pathname + callback.search,
      headers: { host: 'evil.example', 'x-forwarded-host': 'evil.example' },
    });
    expect(status).to.equal(421);
    requirePage(await browser.visit(callback));
    expect(provider.exchanges.at(-1)?.get('redirect_uri')).to.equal(
      `${system.auth}/interaction/callback`,
    );
    expect(provider.exchanges.at(-1)?.get('code_verifier')).to.have.length.of.at.least(43);
  });

  it('IDP-08 lets in nobody whom no rule names', async () => {
    for (const claims of [
      { sub: 'x', email: 'ada@other.example' },
      { sub: 'y', email_verified: false },
      { sub: 'z', email: 'ada@example.com.evil.example' },
    ]) {
      provider.behave({ claims: { ...PERSON, ...claims } });
      const browser = newBrowser();
      await expectRefused(browser, (await leave(browser)).callback, 403);
    }
  });
});

describe('An identity provider that answers badly', () => {
  const huge = 'x'.repeat(11 * 1024 * 1024);
  const at = (path: string, answer: NonNullable<Behaviour['answers']>[string]) => ({
    answers: { [path]: answer },
  });
  const DISCOVERY = '/.well-known/openid-configuration';
  const DAYS: Record<string, (other: string) => Behaviour> = {
    'names another issuer': (other) =>
      at(DISCOVERY, (_req, res) => {
        const endpoints = { authorization_endpoint: `${other}/a`, token_endpoint: `${other}/t` };
        res.setHeader('content-type', 'application/json');
        res.end(JSON.stringify({ issuer: other, jwks_uri: `${other}/jwks`, ...endpoints }));
      }),
    'describes itself in megabytes': () =>
      at(DISCOVERY, (_req, res) => {
        res.setHeader('content-type', 'application/json');
        res.end(JSON.stringify({ issuer: huge }));
      }),
    'never finishes describing itself': () =>
      at(DISCOVERY, (_req, res) => {
        res.setHeader('content-type', 'application/json');
        res.write('{');
      }),
    'sends us elsewhere': (other) =>
      at(DISCOVERY, (_req, res) => res.writeHead(302, { location: other + DISCOVERY }).end()),
  };
  let provider: OpenIdProvider;
  let system: System;
  before(async () => {
    provider = await startOpenIdProvider();
    const entitlements = [{ match: { anyone: true }, level: 'full' }];
    system = await startSystem(signingInAt(provider, { entitlements }));
  });
  after(async () => {
    await system?.stop();
    await provider.stop();
  });

  async function visit(browser: Browser) {
    const { link } = await createConnector(system);
    const { server } = await discover(link);
    return browser.visit(
      authorizeUrl(server, await registerClient(server), { resource: link }).url,
    );
  }

  for (const [what, behaviour] of Object.entries(DAYS)) {
    it(`IDP-10 and ${what} is away: a page says to try again, in time`, async () => {
      const other = await startOpenIdProvider();
      provider.behave(behaviour(other.issuer));
      const started = performance.now();
      const page = requirePage(await visit(openBrowser([system.auth])));
      expect(page.status).to.equal(503);
      expect(page.headers.get('retry-after')).to.match(/^\d+$/);
      expect(performance.now() - started).to.be.below(9000);
      expect(other.requests).to.deep.equal([]);
      await other.stop();
    });
  }

  it('IDP-10 and has megabytes of keys signs nobody in, and does when it is well again', async () => {
    provider.behave({
      claims: PERSON,
      ...at('/jwks', (_req, res) => {
        res.setHeader('content-type', 'application/json');
        res.end(JSON.stringify({ keys: [], more: huge }));
      }),
    });
    const browser = openBrowser([system.auth]);
    const signIn = async () => {
      const departure = requireDeparture(await visit(browser));
      return requirePage(await browser.visit(provider.approve(departure)));
    };
    expect((await signIn()).status).to.equal(503);
    provider.behave({ claims: PERSON });
    expect(asksConsent(await signIn())).to.equal(true);
  });
});
