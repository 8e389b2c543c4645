import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { makeCertificate } from '../oauth/metadata-documents/certificate.ts';
import { EXAMPLE_THEME } from '../pages/sample-pages.ts';
import { addCookies, HOSTED_APP, usePage } from '../support/chromium.ts';
import { createConnector } from '../support/management-api.ts';
import { openConsent, redeem, registerClient } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { SCHEME } from '../support/redirects.ts';
import { startSystem, type System, useSystem } from '../support/system.ts';
import { until } from '../support/until.ts';

const BACK_IN_THE_APP = 'back in the app';
const DESKTOP_APP = 'claude://oauth/done';

/**
 * An app on this computer and one on a host; each records its callbacks. `/callback` redirects to another origin, as hosted clients do
 * on the way to their desktop app.
 */
function useApps() {
  const servers: Server[] = [];
  const callbacks: URL[] = [];
  let local = '';
  let hosted = '';
  before(async () => {
    local = `http://127.0.0.1:${await listen(createServer(answer(() => local)))}`;
    const certificate = makeCertificate(HOSTED_APP);
    const server = createTlsServer(
      certificate,
      answer(() => hosted),
    );
    hosted = `https://${HOSTED_APP}:${await listen(server)}`;
  });
  beforeEach(() => {
    callbacks.length = 0;
  });
  after(() => {
    for (const server of servers) {
      server.closeAllConnections();
      server.close();
    }
  });

  async function listen(server: Server): Promise<number> {
    servers.push(server);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return (server.address() as AddressInfo).port;
  }

  const answer =
    (origin: () => string): RequestListener =>
    (req, res) => {
      const url = new URL(req.url ?? '/', origin());
      if (url.searchParams.has('state')) callbacks.push(url);
      res.setHeader('connection', 'close');
      if (url.pathname === '/callback')
        res.writeHead(307, { location: `${local.replace('127.0.0.1', 'localhost')}/done` }).end();
      else if (url.pathname === '/to-the-desktop')
        res.writeHead(302, { location: `${DESKTOP_APP}${url.search}` }).end();
      else res.end(BACK_IN_THE_APP);
    };

  /** The only callback so far. */
  function requireCallback(): URL {
    const [callback, ...more] = callbacks;
    expect(more).to.have.length(0);
    if (!callback) throw new Error('the app was not called back');
    return callback;
  }

  return { local: () => local, hosted: () => hosted, callbacks, requireCallback };
}

async function openSignIn(system: System, page: Page, redirectUri: string) {
  const { link } = await createConnector(system, { level: 'admin' });
  const { server } = await discover(link);
  const client = await registerClient(server, 'none', redirectUri);
  const { url, verifier, state } = authorizeUrl(server, client, { resource: link });
  await page.goto(url.href);
  return { link, server, client, verifier, state };
}

const press = (page: Page, name: string) => page.getByRole('button', { name }).click();
const isBack = (page: Page) => page.getByText(BACK_IN_THE_APP).waitFor();

describe('Connecting in Chromium', () => {
  const tab = usePage();
  const apps = useApps();
  let system: System;
  const messages: string[] = [];
  before(async () => {
    const hosted = ['/callback', '/to-the-desktop'].map((path) => `${apps.hosted()}${path}`);
    system = await startSystem({ file: { clients: { allowedRedirects: [SCHEME, ...hosted] } } });
    const context = tab().context();
    context.on('console', (message) => messages.push(message.text()));
    context.on('weberror', (failure) => messages.push(String(failure.error())));
  });
  beforeEach(() => {
    messages.length = 0;
  });
  afterEach(() => {
    // Chromium logs a page with an error status.
    expect(messages.filter((line) => !/status of [45]\d\d/.test(line))).to.deep.equal([]);
  });
  after(() => system.stop());

  /** Opens the consent page of a person who has signed in elsewhere. */
  async function openConsentPage(redirectUri: string, page = tab()) {
    const connector = await createConnector(system);
    const { server } = await discover(connector.link);
    const client = await registerClient(server, 'none', redirectUri);
    const consent = await openConsent(system, connector, { as: { client } });
    await addCookies(page, consent.browser.jar);
    await page.goto(consent.page.url.href);
    return consent;
  }

  /** A navigation to a custom scheme does not end, so the tab's next form might not be sent: use a new page for it. */
  const newPage = () => tab().context().newPage();

  /** Approves; resolves to the first URL with this start that the browser then requests. */
  async function approveUntil(page: Page, start: string): Promise<URL> {
    const requested: string[] = [];
    const session = await page.context().newCDPSession(page);
    await session.send('Network.enable');
    session.on('Network.requestWillBeSent', ({ request }) => requested.push(request.url));
    await page.getByRole('button', { name: 'Approve' }).click({ noWaitAfter: true });
    const arrival = () => requested.find((url) => url.startsWith(start));
    return new URL(await until(`a request for ${start}`, arrival));
  }

  it('a connect link shows a page, on which a click selects the link', async () => {
    const { link } = await createConnector(system, { name: 'Club figures' });
    const response = await tab().goto(link);
    expect(response?.status()).to.equal(401);
    expect(await tab().textContent('h1')).to.equal('Connect an app to Club figures');
    await tab().click('#connect-link');
    const selected = await tab().evaluate('getSelection().toString()');
    expect(selected).to.equal(link);
    const radius = await tab().evaluate(
      "getComputedStyle(document.querySelector('main')).borderRadius",
    );
    expect(radius).to.equal('14px');
  });

  it('Chromium shows an error page and a page without access without a console message', async () => {
    const failed = await tab().goto(`${system.auth}/oauth/authorize?client_id=unknown`);
    expect(failed?.status()).to.equal(400);
    expect(await tab().textContent('h1')).to.equal('App not recognized');
    await openSignIn(system, tab(), `${apps.local()}/callback`);
    await press(tab(), 'Alan Turing');
    await tab().getByRole('heading', { name: 'You don’t have access to' }).waitFor();
  });

  it('CON-09 two clicks lead from the authorization request to a loopback redirect URI, and to a working token', async () => {
    const { state, ...started } = await openSignIn(system, tab(), `${apps.local()}/callback`);
    await press(tab(), 'Ada Lovelace');
    await press(tab(), 'Approve');
    await isBack(tab());
    const callback = apps.requireCallback();
    expect(callback.searchParams.get('state')).to.equal(state);
    const { body } = await redeem({ ...started, callback });
    expect(body.scope).to.equal('admin offline_access');
    expect(await isAccepted(started.link, body.access_token)).to.equal(true);
  });

  it("a double click on Approve connects the app, also if the app's callback is slow", async () => {
    const { link, redeem: redeemCode } = await openConsentPage(`${apps.local()}/callback`);
    await tab().getByRole('button', { name: 'Approve' }).dblclick({ delay: 20 });
    await isBack(tab());
    const codes = new Set(apps.callbacks.map(({ searchParams }) => searchParams.get('code')));
    expect(codes.size).to.equal(1);
    const [callback] = apps.callbacks;
    if (!callback) throw new Error('the app was not called back');
    const { body } = await redeemCode(callback);
    expect(await isAccepted(link, body.access_token)).to.equal(true);
  });

  it('CON-13 two authorizations in two tabs send each app its own response, for its own connect link', async () => {
    const second = await newPage();
    const tabs = [];
    for (const [app, page] of [
      ['one', tab()],
      ['two', second],
    ] as const)
      tabs.push({
        page,
        app,
        ...(await openSignIn(system, page, `${apps.local()}/${app}`)),
      });
    for (const { page } of tabs) await press(page, 'Ada Lovelace');
    for (const { page } of tabs.toReversed()) await press(page, 'Approve');
    for (const { page, app, state, ...started } of tabs) {
      await isBack(page);
      const callback = new URL(page.url());
      expect(callback.pathname).to.equal(`/${app}`);
      expect(callback.searchParams.get('state')).to.equal(state);
      const { body } = await redeem({ ...started, callback });
      expect(await isAccepted(started.link, body.access_token)).to.equal(true);
    }
  });

  it('CON-09 a hosted app receives the code at its https redirect URI, which redirects to loopback', async () => {
    const { link, redeem: redeemCode } = await openConsentPage(`${apps.hosted()}/callback`);
    expect(await tab().locator('#local-note').count()).to.equal(0);
    await press(tab(), 'Approve');
    await isBack(tab());
    const { body } = await redeemCode(apps.requireCallback());
    expect(await isAccepted(link, body.access_token)).to.equal(true);
  });

  it('CON-09 a hosted app receives the code at its https redirect URI, which redirects to a custom scheme', async () => {
    const page = await newPage();
    const { redeem: redeemCode } = await openConsentPage(`${apps.hosted()}/to-the-desktop`, page);
    const arrived = await approveUntil(page, DESKTOP_APP);
    const callback = apps.requireCallback();
    expect(arrived.search).to.equal(callback.search);
    expect((await redeemCode(callback)).status).to.equal(200);
  });

  it('CON-09 an app with a custom scheme receives the code, and the page left behind says that it was approved', async () => {
    const page = await newPage();
    const { page: consentPage } = await openConsentPage(SCHEME, page);
    expect(await page.locator('#local-note').innerText()).to.include('An app on this device');
    const arrived = await approveUntil(page, `${SCHEME}?`);
    expect(arrived.searchParams.get('code')).to.be.a('string');
    await page.goto(consentPage.url.href);
    expect(await page.textContent('h1')).to.equal('You’ve approved this');
    expect(await page.locator('main').innerText()).to.include('cursor');
  });
});

describe('Connecting in Chromium, in the example theme', () => {
  const system = useSystem({ file: { theme: EXAMPLE_THEME } });
  const tab = usePage();
  const apps = useApps();

  it('CON-10 approving a lower level without a refresh token and with another account takes one click each, and denying ends the request', async () => {
    const page = tab();
    const redirectUri = `${apps.local()}/callback`;
    const { state, ...started } = await openSignIn(system(), page, redirectUri);
    await press(page, 'Grace Hopper');
    await press(page, 'Use another account');
    await press(page, 'Ada Lovelace');
    const stay = page.getByLabel('Stay connected');
    expect(await page.locator('input[name=level]:checked').inputValue()).to.equal('admin');
    expect(await stay.isChecked()).to.equal(true);
    await page.locator('input[name=level][value=analytics]').check();
    await stay.uncheck();
    await press(page, 'Approve');
    await isBack(page);
    const callback = apps.requireCallback();
    expect(callback.searchParams.get('state')).to.equal(state);
    const { body } = await redeem({ ...started, callback });
    expect(body.scope).to.equal('analytics');
    expect(body).to.not.have.property('refresh_token');
    expect(await isAccepted(started.link, body.access_token)).to.equal(true);

    await openSignIn(system(), page, redirectUri);
    await press(page, 'Deny');
    await isBack(page);
    expect(apps.callbacks[1]?.searchParams.get('error')).to.equal('access_denied');
    await page.goBack();
    expect(await page.getByRole('button', { name: 'Approve' }).count()).to.equal(0);
    await page.getByText('You’ve denied this').waitFor();
  });
});
