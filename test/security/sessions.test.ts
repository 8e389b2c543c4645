// RFC 6265bis section 4.1.3, RFC 9700.
import { expect } from 'chai';
import { createConnector, type Connector } from '../support/management-api.ts';
import {
  isConsentPage,
  isSignInPage,
  type Browser,
  openBrowser,
  requirePage,
} from '../support/browser.ts';
import { registerClient } from '../support/connection.ts';
import { type CookieJar, cookieHeader, storeCookies } from '../support/cookie-jar.ts';
import { freePorts } from '../support/free-ports.ts';
import { authorizeUrl, type Client, discover, type Server } from '../support/oauth.ts';
import {
  type OpenIdProvider,
  openIdSettings,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { rawRequest } from '../support/raw-request.ts';
import { startSystem, type System, useSystem } from '../support/system.ts';

describe('A session', () => {
  const system = useSystem();
  let connector: Connector;
  let server: Server;
  let client: Client;
  before(async () => {
    connector = await createConnector(system());
    ({ server } = await discover(connector.link));
    client = await registerClient(server);
  });

  const newBrowser = () => openBrowser(system().origins);
  const start = (more = {}) => authorizeUrl(server, client, { resource: connector.link, ...more });
  const sessionIn = ({ jar }: Browser) => jar.find(({ name }) => name === 'gatehouse-session');

  async function signedIn(person: 'ada' | 'grace'): Promise<Browser> {
    const browser = newBrowser();
    expect(isConsentPage(await browser.openConsent(start().url, person))).to.equal(true);
    return browser;
  }

  /** The first page of an authorization in a browser with these session cookies and no others. */
  async function pageWith(jar: CookieJar) {
    const browser = newBrowser();
    browser.jar.push(...jar.filter(({ name }) => name.startsWith('gatehouse-session')));
    return requirePage(await browser.visit(start().url));
  }

  it('SES-02 the session id is rotated at every sign-in, and the old one becomes invalid', async () => {
    const attacker = await signedIn('grace');
    const planted = attacker.jar.map((cookie) => ({ ...cookie }));
    expect(isConsentPage(await pageWith(planted))).to.equal(true);
    const victim = newBrowser();
    victim.jar.push(...planted.map((cookie) => ({ ...cookie })));
    const page = requirePage(await victim.visit(start({ prompt: 'login' }).url));
    const after = requirePage(await victim.submit(page, { person: 'ada' }));
    expect(after.html).to.include('Ada Lovelace');
    expect(sessionIn(victim)?.value).to.not.equal(sessionIn(attacker)?.value);
    const replayed = await pageWith(planted);
    expect(isSignInPage(replayed)).to.equal(true);
    expect(isConsentPage(await pageWith(victim.jar))).to.equal(true);
  });

  it('SES-02 a session id that a visitor made up is not accepted', async () => {
    const browser = newBrowser();
    const { hostname: host } = new URL(system().auth);
    const made = { host, path: '/', secure: false, expiresAt: Infinity };
    browser.jar.push({ ...made, name: 'gatehouse-session', value: 'x'.repeat(43) });
    const page = requirePage(await browser.visit(start().url));
    expect(isSignInPage(page)).to.equal(true);
    await browser.submit(page, { person: 'ada' });
    expect(sessionIn(browser)?.value).to.not.equal('x'.repeat(43));
  });

  it('SES-03 a session cookie with a changed value or signature is ignored', async () => {
    const { jar } = await signedIn('ada');
    expect(isConsentPage(await pageWith(jar))).to.equal(true);
    for (const name of ['gatehouse-session', 'gatehouse-session.sig'])
      for (const change of [
        (value: string) => (value.startsWith('A') ? 'B' : 'A') + value.slice(1),
        (value: string) => value.slice(0, -3),
        () => '',
      ]) {
        const changed = jar.map((cookie) =>
          cookie.name === name ? { ...cookie, value: change(cookie.value) } : cookie,
        );
        expect(isSignInPage(await pageWith(changed)), `${name} ${change}`).to.equal(true);
      }
    const unsigned = jar.filter(({ name }) => !name.endsWith('.sig'));
    expect(isSignInPage(await pageWith(unsigned))).to.equal(true);
  });

  it('SES-05 neither a link nor a cross-site form can end a session', async () => {
    const browser = await signedIn('ada');
    for (const path of ['/session/end', '/session/end/confirm', '/oauth/logout', '/oauth/session'])
      for (const method of ['GET', 'POST']) {
        const url = `${system().auth}${path}?post_logout_redirect_uri=https://evil.example`;
        const { status, headers } = await fetch(url, {
          method,
          redirect: 'manual',
          headers: { cookie: cookieHeader(browser.jar, new URL(url)) },
        });
        expect(status, `${method} ${path}`).to.equal(404);
        expect(headers.has('location') || headers.has('set-cookie')).to.equal(false);
      }
    expect(isConsentPage(requirePage(await browser.visit(start().url)))).to.equal(true);
  });
});

describe('Cookies behind a proxy that terminates TLS', () => {
  let provider: OpenIdProvider;
  let system: System;
  let listener: string;
  let auth: string;
  before(async () => {
    provider = await startOpenIdProvider();
    provider.setBehaviour({ claims: { name: 'Ada', email: 'ada@example.com' } });
    const [publicPort, port] = await freePorts(2);
    auth = `https://localhost:${publicPort}`;
    listener = `http://127.0.0.1:${port}`;
    const entitlements = [{ match: { anyone: true }, level: 'full' }];
    const addresses = {
      GATEHOUSE_AUTH_URL: auth,
      GATEHOUSE_AUTH_LISTEN: `127.0.0.1:${port}`,
    };
    system = await startSystem(openIdSettings(provider, { entitlements }, addresses));
  });
  after(async () => {
    await system?.stop();
    await provider.stop();
  });

  /** Sends a request as the proxy does, with headers that the proxy or the client adds. */
  async function forward(url: URL, jar: CookieJar, forwarded: Record<string, string> = {}) {
    const cookie = cookieHeader(jar, url);
    const { status, headers } = await rawRequest(listener, {
      path: url.pathname + url.search,
      headers: { host: url.host, accept: 'text/html', ...(cookie ? { cookie } : {}), ...forwarded },
    });
    const set = headers['set-cookie'] ?? [];
    storeCookies(jar, url, set);
    return { status, set, location: headers.location ?? '' };
  }

  /** All cookies that are set from the first request to the consent page. */
  async function cookiesOfSignIn(forwarded: Record<string, string>): Promise<string[]> {
    const { link } = await createConnector(system);
    const jar: CookieJar = [];
    const all: string[] = [];
    const redirectUri = 'http://127.0.0.1:7070/callback';
    const { body } = await registerThrough(redirectUri);
    const client = { id: body.client_id, method: 'none', redirectUri } as Client;
    const endpoints = { authorization_endpoint: `${auth}/oauth/authorize` } as Server;
    let { url } = authorizeUrl(endpoints, client, { resource: link });
    for (let step = 0; step < 10; step += 1) {
      const { status, set, location } = await forward(url, jar, forwarded);
      all.push(...set);
      if (status === 200) return all;
      expect(status, url.pathname).to.equal(303);
      url = new URL(location, url);
      if (url.origin === provider.issuer) url = provider.approve(url);
    }
    throw new Error(`the redirects did not end at a page, the last was ${url.href}`);
  }

  async function registerThrough(redirectUri: string) {
    const { body } = await rawRequest(listener, {
      method: 'POST',
      path: '/oauth/register',
      headers: { host: new URL(auth).host, 'content-type': 'application/json' },
      chunks: [
        JSON.stringify({ redirect_uris: [redirectUri], token_endpoint_auth_method: 'none' }),
      ],
    });
    return { body: JSON.parse(body) as { client_id: string } };
  }

  for (const forwarded of [{}, { 'x-forwarded-proto': 'http' }, { forwarded: 'proto=http' }]) {
    it(`SES-01 cookies are Secure, HttpOnly and SameSite=Lax with a __Host- or __Secure- prefix (${JSON.stringify(forwarded)})`, async () => {
      const cookies = await cookiesOfSignIn(forwarded as Record<string, string>);
      const kept = cookies.filter((cookie) => !/^[^=]+=;/.test(cookie));
      expect(kept.some((cookie) => cookie.startsWith('__Host-gatehouse-session='))).to.equal(true);
      for (const cookie of kept) {
        expect(cookie)
          .to.match(/; secure(;|$)/i)
          .and.match(/; httponly(;|$)/i);
        expect(cookie)
          .to.match(/; samesite=lax(;|$)/i)
          .and.not.match(/; domain=/i);
        if (cookie.startsWith('__Host-')) expect(cookie).to.match(/; path=\/(;|$)/i);
        else
          expect(cookie).to.match(/^__Secure-.*; path=\/(interaction|oauth\/authorize)\/[\w-]+/i);
      }
    });
  }
});
