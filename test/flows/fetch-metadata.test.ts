// HEAD, prefetches and embedded pages are refused during an authorization (RFC 9110 section 9.2.1).
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import {
  isConsentPage,
  openBrowser,
  requireExternalRedirect,
  requirePage,
  type Browser,
} from '../support/browser.ts';
import { requestAuthorization } from '../support/connection.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import { countStoredKeys, isWrittenAnyTime } from '../support/stored-keys.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { useSystem } from '../support/system.ts';

const UNSEEN: RequestInit[] = [
  { method: 'HEAD' },
  ...['prefetch', 'prefetch;prerender', 'prefetch;anonymous-client-ip', 'prerender'].map(
    (purpose) => ({ headers: { 'sec-purpose': purpose } }),
  ),
  { headers: { purpose: 'prefetch' } },
  ...['image', 'iframe', 'object', 'script', 'empty'].map((dest) => ({
    headers: { 'sec-fetch-dest': dest },
  })),
  { method: 'HEAD', headers: { 'sec-purpose': 'prefetch' } },
];

describe('A request that shows no page to a person', () => {
  const system = useSystem();

  /** Goes to the identity provider; returns the cookies of each step. */
  async function start() {
    const { link } = await createConnector(system());
    const { url } = await requestAuthorization(system(), { link });
    const browser = openBrowser([system().auth]);
    const signIn = requireExternalRedirect(await browser.visit(url));
    const page = browser.visited.at(-1);
    if (!page?.pathname.startsWith('/interaction/')) throw new Error(`went to ${page?.href}`);
    return { browser, signIn, page };
  }

  /** Sends each kind of such a request with the browser's cookies, and expects a refusal without side effects. */
  async function expectNothingHappens(browser: Browser, url: URL): Promise<void> {
    const stored = async () =>
      (await readStoredBytes(system().storeAddress)).filter(({ name }) => !isWrittenAnyTime(name));
    const before = await stored();
    for (const { method = 'GET', headers } of UNSEEN) {
      const cookie = cookieHeader(browser.jar, url);
      const response = await fetch(url, {
        method,
        redirect: 'manual',
        headers: { ...headers, accept: 'text/html', cookie },
      });
      await response.text();
      const what = `${method} ${JSON.stringify(headers)} ${url.pathname}`;
      expect(response.status, what).to.equal(405);
      expect(response.headers.get('allow'), what).to.match(/\bGET\b/);
      for (const name of ['location', 'set-cookie'])
        expect(response.headers.has(name), `${what}: ${name}`).to.equal(false);
      expect(await stored(), what).to.deep.equal(before);
    }
  }

  it('CON-11 the request starts no sign-in, and a sign-in in progress can finish', async () => {
    const { browser, page } = await start();
    const { 'sign-in': before = 0 } = await countStoredKeys(system());
    await expectNothingHappens(browser, page);
    requireExternalRedirect(await browser.visit(page));
    expect((await countStoredKeys(system()))['sign-in']).to.equal(before);
  });

  it("CON-11 the request does not consume the identity provider's response and shows no consent page", async () => {
    const { browser, signIn, page } = await start();
    const elsewhere = openBrowser([signIn.origin]);
    const people = requirePage(await elsewhere.visit(signIn));
    const callback = requireExternalRedirect(await elsewhere.submit(people, { person: 'ada' }));
    await expectNothingHappens(browser, callback);
    const inFlow = new URL(`${page.pathname}/callback${callback.search}`, callback);
    await expectNothingHappens(browser, inFlow);
    const consent = requirePage(await browser.visit(callback));
    expect(isConsentPage(consent)).to.equal(true);
    await expectNothingHappens(browser, consent.url);
    const answer = requireExternalRedirect(await browser.submit(consent, { decision: 'approve' }));
    expect(answer.searchParams.has('code')).to.equal(true);
  });

  it('CON-11 the request starts no authorization', async () => {
    const { link } = await createConnector(system());
    const { url } = await requestAuthorization(system(), { link });
    await expectNothingHappens(openBrowser([system().auth]), url);
  });

  it('CON-11 the request ends no authorization, even with its cookies', async () => {
    const { browser, page } = await start();
    const resumed = new URL(page.pathname.replace('/interaction/', '/oauth/authorize/'), page);
    await expectNothingHappens(browser, resumed);
  });
});
