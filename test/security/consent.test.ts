// The consent page and its form (RFC 6749 section 10.2, RFC 9700 section 4.16): asked every time, says what is so, belongs to one browser, and ends.
import { expect } from 'chai';
import { createConnector, type Connector } from '../support/administrator.ts';
import {
  asksConsent,
  asksWho,
  type Browser,
  describePage,
  openBrowser,
  type Page,
  requireDeparture,
  requirePage,
} from '../support/browser.ts';
import { redeem, registerClient, REDIRECT_URI } from '../support/connection.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import type { Filling } from '../support/html-forms.ts';
import { authorizeUrl, type Client, discover, register, type Server } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

const DOCUMENT = 'https://app.example/client.json';
const HOSTED = 'https://app.example/cb';

describe('Consent', () => {
  const system = useSystem({
    file: {
      clients: {
        preRegistered: [{ id: 'reports', name: 'Monthly reports', redirectUris: [HOSTED] }],
        metadataDocuments: [
          {
            url: DOCUMENT,
            document: { client_id: DOCUMENT, client_name: 'Claude', redirect_uris: [HOSTED] },
          },
        ],
      },
    },
  });
  let connector: Connector;
  let server: Server;
  before(async () => {
    connector = await createConnector(system(), { name: 'Club figures' });
    ({ server } = await discover(connector.link));
  });

  const PRE_REGISTERED: Client = { id: 'reports', method: 'none', redirectUri: HOSTED };
  const PUBLISHED: Client = { id: DOCUMENT, method: 'none', redirectUri: HOSTED };
  const start = (client: Client, more = {}) =>
    authorizeUrl(server, client, { resource: connector.link, ...more });
  const newBrowser = () => openBrowser(system().origins);

  async function kinds(): Promise<[string, Client][]> {
    return [
      ['added by an administrator', PRE_REGISTERED],
      ['identified by this address', PUBLISHED],
      ['not verified', await registerClient(server)],
    ];
  }

  async function registerNamed(metadata: object): Promise<Client> {
    const { body } = await register(server, {
      redirect_uris: [REDIRECT_URI],
      token_endpoint_auth_method: 'none',
      ...metadata,
    });
    return { id: body.client_id ?? '', method: 'none', redirectUri: REDIRECT_URI };
  }

  /** A fresh person at the page, and what its form would send. */
  async function opened(client?: Client) {
    const browser = newBrowser();
    const authorization = start(client ?? (await registerClient(server)));
    const page = await browser.openConsent(authorization.url);
    return { browser, page, ...authorization };
  }

  function approval(page: Page): { action: URL; body: URLSearchParams } {
    const form = page.forms.find(({ method }) => method === 'POST');
    if (!form) throw new Error(describePage(page));
    const body = new URLSearchParams({ decision: 'approve', level: 'operations' });
    for (const { kind, name, value } of form.controls)
      if (kind === 'hidden') body.append(name, value);
    return { action: form.action, body };
  }

  it('CON-01 is asked every time of every kind of client, wherever the link was clicked', async () => {
    for (const [kind, client] of await kinds()) {
      const browser = newBrowser();
      await browser.authorize(start(client).url);
      for (const site of ['', 'none', 'same-origin', 'cross-site']) {
        const { url } = start(client, { prompt: undefined });
        const headers = {
          cookie: cookieHeader(browser.jar, url),
          accept: 'text/html',
          ...(site ? { 'sec-fetch-site': site } : {}),
        };
        const answer = await fetch(url, { headers, redirect: 'manual' });
        expect(answer.headers.get('location'), `${kind} ${site}`).to.match(/^\/interaction\//);
      }
      expect(asksConsent(requirePage(await browser.visit(start(client).url))), kind).to.equal(true);
    }
  });

  it('CON-02 CON-03 says who asks, where the answer goes, what for, as whom and for how long', async () => {
    for (const [kind, client] of await kinds()) {
      const { page } = await opened(client);
      const text = describeAll(page);
      expect(text, kind).to.match(new RegExp(kind, 'i'));
      const { host } = new URL(client.redirectUri);
      for (const fact of [host, 'Club figures', connector.link, 'Ada Lovelace', 'operations'])
        expect(text, kind).to.include(fact);
      expect(text, kind)
        .to.match(/90\sdays/)
        .and.match(/use another account/i);
      expect(page.html.includes('id="local-warning"'), kind).to.equal(host === '127.0.0.1:7070');
    }
  });

  function describeAll({ html }: Page): string {
    return html.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');
  }

  it('CON-04 shows a name as text of one line that nobody vouches for', async () => {
    const names: [string, RegExp, RegExp][] = [
      ['Claude\u202e\u0000<img src=x onerror=1>', /Claude&lt;img src=x/, /<img|\u202e/],
      ['\u2066Claude\u2069 \u200bby\u00a0us', /Claude by us/, /[\u2066\u2069\u200b]/],
      ['Ｃｌａｕｄｅ', /Claude/, /Ｃ/],
      ['Cl\u0430ude', /An app without a name/, /\u0430/],
      ['x'.repeat(10_000), /x{80}/, /x{81}/],
      ['"><script>alert(1)</script>', /&lt;script/, /<script/],
      ['Claude\n(verified)', /Claude ?\(verified\)/, /Claude\n/],
    ];
    for (const [client_name, shown, hidden] of names) {
      const { page } = await opened(await registerNamed({ client_name }));
      expect(page.html, client_name.slice(0, 40))
        .to.match(shown)
        .and.match(/not verified/i);
      expect(page.html, client_name.slice(0, 40)).to.not.match(hidden);
    }
  });

  it('CON-05 shows and loads nothing from addresses that a client gave', async () => {
    const spy = 'https://spy.example';
    const client = await registerNamed(
      Object.fromEntries(
        ['logo_uri', 'client_uri', 'policy_uri', 'tos_uri', 'jwks_uri', 'initiate_login_uri'].map(
          (name) => [name, `${spy}/${name}`],
        ),
      ),
    );
    const { page } = await opened(client);
    expect(page.html).to.not.include('spy.example');
    expect(page.html).to.not.match(/(?:src|href)="(?:https?:)?\/\//);
    expect(page.headers.get('content-security-policy')).to.match(/img-src 'self'(;|$)/);
  });

  it('CON-06 takes no form of another flow, site or nobody, and goes on', async () => {
    const { browser, page } = await opened();
    const other = requirePage(await browser.visit(start(await registerClient(server)).url));
    const { action, body } = approval(page);
    const foreign = approval(other).body;
    const cookie = cookieHeader(browser.jar, action);
    const attempts: [string, URLSearchParams, Record<string, string>][] = [
      ['of another flow', foreign, {}],
      ['without a token', new URLSearchParams({ decision: 'approve', level: 'operations' }), {}],
      ['from another origin', body, { origin: 'https://evil.example' }],
      ['from nowhere', body, { origin: 'null' }],
      ['from the resource server', body, { origin: system().resource }],
      ['across sites', body, { 'sec-fetch-site': 'cross-site' }],
      ['from a neighbour', body, { 'sec-fetch-site': 'same-site' }],
    ];
    for (const decision of ['approve', 'deny', 'switch'])
      for (const [what, sent, headers] of attempts) {
        const form = new URLSearchParams(sent);
        form.set('decision', decision);
        const answer = await fetch(action, {
          method: 'POST',
          redirect: 'manual',
          headers: { cookie, ...headers },
          body: form,
        });
        expect(answer.status, `${decision} ${what}`).to.equal(403);
      }
    const callback = requireDeparture(await browser.post(page, action, body));
    expect(callback.searchParams.has('code')).to.equal(true);
    for (const [what, sent, headers] of attempts.slice(2)) {
      const answer = await fetch(action, {
        method: 'POST',
        redirect: 'manual',
        headers: { cookie, ...headers },
        body: sent,
      });
      expect([answer.status, answer.headers.get('location')], what).to.deep.equal([403, null]);
    }
  });

  it('CON-06 takes the form of a page that was loaded twice, from either copy', async () => {
    const { browser, page } = await opened();
    const again = requirePage(await browser.visit(page.url));
    expect(approval(again).body.get('token')).to.equal(approval(page).body.get('token'));
    const callback = requireDeparture(await browser.submit(page, { decision: 'approve' }));
    expect(callback.searchParams.has('code')).to.equal(true);
  });

  it('CON-12 belongs to the browser that started it, and to one flow of that', async () => {
    const { browser, page } = await opened();
    const uid = page.url.pathname.split('/').at(-1) ?? '';
    const stranger = newBrowser();
    await stranger.authorize(start(await registerClient(server)).url, { person: 'grace' });
    for (const path of [`/interaction/${uid}`, `/oauth/authorize/${uid}`]) {
      const answer = requirePage(await stranger.visit(system().auth + path));
      expect(answer.status, path).to.equal(400);
    }
    const stolen = requirePage(await stranger.post(page, page.url, approval(page).body));
    expect(stolen.status).to.equal(400);
    // The cookie of one flow, sent to the address of another.
    const second = requirePage(await browser.visit(start(await registerClient(server)).url));
    const answer = await fetch(second.url, {
      redirect: 'manual',
      headers: { cookie: cookieHeader(browser.jar, page.url) },
    });
    expect(answer.status).to.equal(400);
    requireDeparture(await browser.submit(page, { decision: 'approve' }));
  });

  it('CON-12 gets no answer from a flow of another browser, whose cookie was sent to its address', async () => {
    const [stranger, person] = [await opened(), await opened()];
    const { action, body } = approval(stranger.page);
    const { headers } = await fetch(action, {
      method: 'POST',
      redirect: 'manual',
      headers: { cookie: cookieHeader(stranger.browser.jar, action) },
      body,
    });
    const resumed = new URL(headers.get('location') ?? '');
    const cookie = cookieHeader(stranger.browser.jar, resumed);
    const { pathname } = new URL(person.page.url);
    const elsewhere = resumed.href.replace(/[^/]+$/, pathname.split('/').at(-1) ?? '');
    const answer = await fetch(elsewhere, { redirect: 'manual', headers: { cookie } });
    expect([answer.status, answer.headers.get('location')]).to.deep.equal([400, null]);
    const callback = requireDeparture(
      await person.browser.submit(person.page, { decision: 'approve' }),
    );
    expect(callback.searchParams.get('state')).to.equal(person.state);
  });

  const ORDERS = ['xXyY', 'xyXY', 'xyYX', 'yxXY', 'yxYX', 'yYxX'];
  for (const order of ORDERS) {
    it(`CON-13 of two apps in one browser reaches each its own (${order})`, async () => {
      const browser = newBrowser();
      const tabs = { x: await tab(browser), y: await tab(browser) };
      for (const step of order) await tabs[step.toLowerCase() as 'x' | 'y'].go();
      for (const { state, client, verifier, page } of Object.values(tabs)) {
        if (page.kind !== 'left') throw new Error(describePage(page));
        expect(page.url.searchParams.get('state')).to.equal(state);
        const code = { link: connector.link, server, client, callback: page.url, verifier };
        expect((await redeem(code)).status).to.equal(200);
      }
    });
  }

  /** One authorization in a tab of its own: `go` signs in, and then approves. */
  async function tab(browser: Browser) {
    const client = await registerClient(server);
    const { url, state, verifier } = start(client);
    const self = {
      client,
      state,
      verifier,
      page: await browser.visit(url),
      async go() {
        const page = requirePage(self.page);
        const filling: Filling = asksWho(page) ? { person: 'ada' } : { decision: 'approve' };
        self.page = await browser.submit(page, filling);
      },
    };
    return self;
  }

  it('CON-15 comes after a fresh sign-in when the app asks for one', async () => {
    const browser = newBrowser();
    const client = await registerClient(server);
    await browser.authorize(start(client).url);
    browser.visited.length = 0;
    const page = requirePage(await browser.visit(start(client, { prompt: 'login' }).url));
    expect(asksWho(page)).to.equal(true);
    const idp = new URL(String(system().origins[2]));
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
  it('CON-16 renders its own templates with its own values, whatever the query says', async () => {
    const client = await registerClient(server);
    for (const injection of INJECTIONS) {
      const query = encodeURI(injection);
      const { browser, page } = await opened(client);
      const same = requirePage(await browser.visit(`${page.url.href}?${query}`));
      expect(same.status, injection).to.equal(200);
      expect(same.html).to.equal(page.html);
      const home = requirePage(await browser.visit(`${system().auth}/?${query}`));
      expect(home.html).to.not.include('owned');
      const refused = requirePage(
        await browser.visit(`${system().auth}/oauth/authorize?client_id=nobody&${query}`),
      );
      expect(refused.status, injection).to.equal(400);
      expect(refused.html).to.not.include('owned').and.not.include('root:');
    }
  });

  it('CON-17 ends after one page, whatever was asked', async () => {
    const client = await registerClient(server);
    for (const more of [
      { scope: 'openid' },
      { scope: '*' },
      { scope: 'offline_access' },
      { scope: 'full', prompt: 'consent' },
      { prompt: 'login consent' },
      { prompt: 'select_account' },
      { prompt: 'login', max_age: '0' },
    ]) {
      const browser = newBrowser();
      const page = await browser.openConsent(start(client, more).url);
      const { searchParams } = requireDeparture(
        await browser.submit(page, { decision: 'approve' }),
      );
      expect(searchParams.has('code'), JSON.stringify(more)).to.equal(true);
    }
  });

  it('CON-17 ends for a person who may hold nothing, however often they try', async () => {
    const browser = newBrowser();
    const page = await browser.openConsent(start(await registerClient(server)).url, 'alan');
    const { action, body } = approval(page);
    for (let time = 0; time < 3; time += 1) {
      const answer = requirePage(await browser.post(page, action, body));
      expect([answer.status, asksConsent(answer)]).to.deep.equal([403, false]);
    }
    const { searchParams } = requireDeparture(await browser.submit(page, { decision: 'deny' }));
    expect(searchParams.get('error')).to.equal('access_denied');
  });
});
