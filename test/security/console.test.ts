import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { type Browser, openBrowser, requirePage } from '../support/browser.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import { discover, register } from '../support/oauth.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { useSystem } from '../support/system.ts';
import { withoutOwnScript } from '../support/own-script.ts';

const SESSION = 'gatehouse-console';
const FORMS = [
  '/connectors',
  '/connectors/AAAAAAAAAAAAAAAAAAAAAA/revoke',
  '/connectors/AAAAAAAAAAAAAAAAAAAAAA/delete',
  '/tokens',
  '/tokens/revoke',
  '/clients/revoke',
  '/clients/allow',
  '/grants/end',
  '/accounts/disable',
  '/accounts/enable',
  '/sign-out',
];

function sessionIn({ jar }: Browser): string | undefined {
  return jar.find(({ name }) => name === SESSION)?.value;
}

describe('The console', () => {
  const system = useSystem();
  const at = (path: string) => `${system().management}/console${path}`;
  const newBrowser = () => openBrowser([...system().origins, system().management]);

  async function signIn(browser = newBrowser()): Promise<Browser> {
    const page = requirePage(await browser.visit(at('/connectors')));
    await browser.submit(page, { person: 'ada' });
    return browser;
  }

  async function ask(path: string, browser: Browser, headers = {}, method = 'GET') {
    const cookie = cookieHeader(browser.jar, new URL(at(path)));
    const response = await fetch(at(path), {
      method,
      headers: { cookie, ...headers },
      ...(method === 'POST' ? { body: new URLSearchParams({ id: 'x' }) } : {}),
      redirect: 'manual',
    });
    await response.arrayBuffer();
    return response;
  }

  it("CSL-02 a callback with another browser's state is refused and changes no session", async () => {
    const [signedIn, otherBrowser] = [await signIn(), newBrowser()];
    const session = sessionIn(signedIn);
    await otherBrowser.visit(at('/connectors'));
    const redirect = await ask('/connectors', newBrowser());
    const otherState = new URL(redirect.headers.get('location') ?? '').searchParams.get('state');
    for (const browser of [signedIn, newBrowser()]) {
      const { status, headers } = await ask(`/callback?code=x&state=${otherState}`, browser);
      expect(status).to.equal(400);
      expect(headers.getSetCookie().join()).not.to.include(`${SESSION}=`);
    }
    expect((await ask('/connectors', signedIn)).status).to.equal(200);
    expect(sessionIn(signedIn)).to.equal(session);
  });

  it('CSL-02 forged callbacks do not prevent the sign-in that is in progress', async () => {
    const browser = newBrowser();
    const page = requirePage(await browser.visit(at('/connectors')));
    for (const query of ['', '?code=x', '?code=x&state=made-up', '?error=access_denied&state=x']) {
      const answer = requirePage(await browser.visit(at(`/callback${query}`)));
      expect(answer.status, query).to.equal(400);
    }
    const inside = requirePage(await browser.submit(page, { person: 'ada' }));
    expect(inside.url.pathname).to.equal('/console/connectors');
  });

  it('CSL-03 each sign-in creates a new session id, and a planted or earlier one is not accepted', async () => {
    const browser = newBrowser();
    const host = new URL(system().management).hostname;
    const planted = 'P'.repeat(43);
    const made = { host, path: '/', secure: false, expiresAt: Infinity };
    browser.jar.push({ ...made, name: SESSION, value: planted });
    const first = sessionIn(await signIn(browser));
    expect(first)
      .to.match(/^[\w-]{43}$/)
      .and.not.equal(planted);
    const earlier = newBrowser();
    earlier.jar.push(...browser.jar.map((cookie) => ({ ...cookie })));
    const page = requirePage(await browser.visit(at('/sign-in')));
    await browser.submit(page, { person: 'ada' });
    expect(sessionIn(browser))
      .to.match(/^[\w-]{43}$/)
      .and.not.equal(first);
    expect((await ask('/connectors', browser)).status).to.equal(200);
    expect((await ask('/connectors', earlier)).status).to.equal(303);
  });

  it('CSL-03 the store does not contain the session id in plain text', async () => {
    const session = sessionIn(await signIn()) ?? '';
    const stored = await readStoredBytes(system().storeAddress);
    expect(stored).to.not.deep.equal([]);
    for (const { name, bytes } of stored)
      expect(`${name} ${bytes.toString('latin1')}`).not.to.include(session);
  });

  it('CSL-05 requests to form URLs with methods other than POST are refused', async () => {
    const browser = await signIn();
    for (const path of FORMS)
      for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'PATCH']) {
        const { status } = await ask(path, browser, {}, method);
        const isPage =
          ['GET', 'HEAD'].includes(method) && ['/connectors', '/tokens'].includes(path);
        if (!isPage) expect(status, `${method} ${path}`).to.be.oneOf([404, 405]);
      }
    expect((await ask('/connectors', browser)).status).to.equal(200);
  });

  it('CSL-05 every form without the form token of the session is refused', async () => {
    const browser = await signIn();
    for (const path of FORMS) {
      const { status } = await ask(path, browser, {}, 'POST');
      expect(status, path).to.equal(403);
    }
    expect((await ask('/connectors', browser)).status).to.equal(200);
  });

  it('CSL-08 the store does not contain a minted token', async () => {
    const browser = await signIn();
    const page = requirePage(await browser.visit(at('/tokens/new')));
    const minted = requirePage(await browser.submit(page, { name: 'Kept', level: 'analytics' }));
    const token = /id="token"[^>]*>([^<]+)</.exec(minted.html)?.[1] ?? '';
    expect(token).to.match(/^[\w-]+\.[\w-]+\.[\w-]+$/);
    const secretPart = token.split('.')[2] ?? '';
    for (const { name, bytes } of await readStoredBytes(system().storeAddress))
      expect(`${name} ${bytes.toString('latin1')}`).not.to.include(secretPart);
  });

  it('CSL-09 the console escapes names of connectors and apps', async () => {
    const name = `"><script>alert(1)</script><img src=x onerror='x'>`;
    const connector = await createConnector(system(), { name });
    await register((await discover(connector.link)).server, {
      redirect_uris: ['http://127.0.0.1:1/callback'],
      client_name: `${name}\u202egnp.exe\u200b`,
    });
    const browser = await signIn();
    for (const path of ['/connectors', `/connectors/${connector.id}`, '/clients', '/audit']) {
      const { status, html } = requirePage(await browser.visit(at(path)));
      expect(status, path).to.equal(200);
      expect(withoutOwnScript(html), path).not.to.match(/<script|<img src=x|\u202e|\u200b/);
    }
    const { html } = requirePage(await browser.visit(at(`/connectors/${connector.id}`)));
    expect(html).to.include('&lt;script&gt;');
  });

  it('CSL-12 prefetches, images and frames start no sign-in', async () => {
    for (const path of ['/connectors', '/sign-in', '/callback?code=x&state=y'])
      for (const headers of [
        { 'sec-fetch-dest': 'image' },
        { 'sec-fetch-dest': 'iframe' },
        { 'sec-purpose': 'prefetch;prerender' },
      ]) {
        const response = await ask(path, newBrowser(), headers);
        expect(response.status, `${path} ${JSON.stringify(headers)}`).to.equal(405);
        expect(response.headers.has('set-cookie')).to.equal(false);
      }
  });
});

describe('The sign-in limit of the console', () => {
  const system = useSystem({ file: { limits: { signIns: { perAddress: '5/10m' } } } });

  it('CSL-12 too many sign-ins from one address get 429, and an existing session still works', async () => {
    const { management, origins } = system();
    const browser = openBrowser([...origins, management]);
    const page = requirePage(await browser.visit(`${management}/console/connectors`));
    await browser.submit(page, { person: 'ada' });
    const statuses: number[] = [];
    for (let n = 0; n < 8; n += 1) {
      const response = await fetch(`${management}/console/connectors`, { redirect: 'manual' });
      statuses.push(response.status);
      if (response.status === 429) expect(response.headers.get('retry-after')).to.match(/^\d+$/);
    }
    expect(statuses[0]).to.equal(303);
    expect(statuses.at(-1)).to.equal(429);
    const inside = requirePage(await browser.visit(`${management}/console/connectors`));
    expect(inside.status).to.equal(200);
  });
});
