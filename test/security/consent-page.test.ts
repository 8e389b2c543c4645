import { expect } from 'chai';
import { isConsentPage, isSignInPage, type Page, requirePage } from '../support/browser.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import { useConsent } from '../support/consent.ts';

describe('The consent page', () => {
  const consent = useConsent();

  it('CON-01 the consent page is shown for every authorization of every kind of client, from any site', async () => {
    const browser = consent.newBrowser();
    for (const [kind, client] of await consent.clientsOfEachKind()) {
      await browser.authorize(consent.startAuthorization(client).url);
      for (const site of ['', 'none', 'same-origin', 'cross-site']) {
        const { url } = consent.startAuthorization(client, { prompt: undefined });
        const headers = {
          cookie: cookieHeader(browser.jar, url),
          accept: 'text/html',
          ...(site ? { 'sec-fetch-site': site } : {}),
        };
        const answer = await fetch(url, { headers, redirect: 'manual' });
        expect(answer.headers.get('location'), `${kind} ${site}`).to.match(/^\/interaction\//);
      }
      expect(
        isConsentPage(requirePage(await browser.visit(consent.startAuthorization(client).url))),
        kind,
      ).to.equal(true);
    }
  });

  it('CON-02 CON-03 the consent page shows app, redirect host, connector, account, level and duration', async () => {
    const browser = consent.newBrowser();
    for (const [kind, client] of await consent.clientsOfEachKind()) {
      const { page } = await consent.openConsentPage(client, browser);
      const text = describeAll(page);
      expect(text, kind).to.match(new RegExp(kind, 'i'));
      const { host } = new URL(client.redirectUri);
      for (const fact of [
        host,
        'Club figures',
        consent.target().connector.link,
        'Ada Lovelace',
        'Totals and names',
      ])
        expect(text, kind).to.include(fact);
      expect(text, kind)
        .to.match(/90\sdays/)
        .and.match(/use another account/i);
      expect(page.html.includes('id="local-note"'), kind).to.equal(host === '127.0.0.1:7070');
    }
  });

  function describeAll({ html }: Page): string {
    return html.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');
  }

  it('CON-04 the consent page shows a client name as one escaped line marked not verified', async () => {
    const names: [string, RegExp, RegExp][] = [
      ['Claude\u202e\u0000<img src=x onerror=1>', /Claude&lt;img src=x/, /<img|\u202e/],
      ['\u2066Claude\u2069 \u200bby\u00a0us', /Claude by us/, /[\u2066\u2069\u200b]/],
      ['Ｃｌａｕｄｅ', /Claude/, /Ｃ/],
      ['Cl\u0430ude', /An app without a name/, /\u0430/],
      ['x'.repeat(10_000), /x{80}/, /x{81}/],
      ['"><script>alert(1)</script>', /&lt;script/, /<script/],
      ['Claude\n(verified)', /Claude ?\(verified\)/, /Claude\n/],
    ];
    const browser = consent.newBrowser();
    for (const [client_name, shown, hidden] of names) {
      const client = await consent.registerNamed({ client_name });
      const { page } = await consent.openConsentPage(client, browser);
      expect(page.html, client_name.slice(0, 40))
        .to.match(shown)
        .and.match(/not verified/i);
      expect(page.html, client_name.slice(0, 40)).to.not.match(hidden);
    }
  });

  it("CON-05 the consent page shows and loads no URL from the client's metadata", async () => {
    const spy = 'https://spy.example';
    const client = await consent.registerNamed(
      Object.fromEntries(
        ['logo_uri', 'client_uri', 'policy_uri', 'tos_uri', 'jwks_uri', 'initiate_login_uri'].map(
          (name) => [name, `${spy}/${name}`],
        ),
      ),
    );
    const { page } = await consent.openConsentPage(client);
    expect(page.html).to.not.include('spy.example');
    expect(page.html).to.not.match(/(?:src|href)="(?:https?:)?\/\//);
    expect(page.headers.get('content-security-policy')).to.match(/img-src 'self'(;|$)/);
    expect(page.headers.get('cache-control')).to.include('no-store');
    expect(page.headers.has('access-control-allow-origin')).to.equal(false);
  });

  it('CON-15 prompt=login reaches the identity provider before the consent page', async () => {
    const browser = consent.newBrowser();
    const client = await consent.newClient();
    await browser.authorize(consent.startAuthorization(client).url);
    browser.visited.length = 0;
    const page = requirePage(
      await browser.visit(consent.startAuthorization(client, { prompt: 'login' }).url),
    );
    expect(isSignInPage(page)).to.equal(true);
    const idp = new URL(String(consent.system().origins[2]));
    const asked = browser.visited.filter(({ host }) => host === idp.host);
    expect(asked.some(({ searchParams }) => searchParams.get('prompt') === 'login')).to.equal(true);
  });

  const INJECTIONS = [
    'settings[view options][client]=1&settings[view options][escape]=1;process.exit(7)//',
    'settings[view options][outputFunctionName]=x;process.exit(7);s',
    'delimiter=?&openDelimiter={&closeDelimiter=}',
    '__proto__[outputFunctionName]=x;process.exit(7);s',
    'constructor[prototype][client]=1',
    'cache=1&filename=../../etc/passwd&page=1&title=%3Cb%3Eowned',
    'client=1&escapeFunction=process.exit(7)&localsName=page',
  ];
  it('CON-16 query parameters change no template, option or value of a page', async () => {
    const { browser, page } = await consent.openConsentPage();
    for (const injection of INJECTIONS) {
      const query = encodeURI(injection);
      const same = requirePage(await browser.visit(`${page.url.href}?${query}`));
      expect(same.status, injection).to.equal(200);
      expect(same.html).to.equal(page.html);
      const home = requirePage(await browser.visit(`${consent.system().auth}/?${query}`));
      expect(home.html).to.not.include('owned');
      const refused = requirePage(
        await browser.visit(`${consent.system().auth}/oauth/authorize?client_id=nobody&${query}`),
      );
      expect(refused.status, injection).to.equal(400);
      expect(refused.html).to.not.include('owned').and.not.include('root:');
    }
  });
});
