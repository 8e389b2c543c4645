import { once } from 'node:events';
import {
  createServer as createPlainServer,
  type RequestListener,
  type Server as HttpServer,
} from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Server as NetServer } from 'node:net';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { makeCertificate } from '../authorization-server/metadata-documents/certificate.ts';
import { HOSTED_APP, useNewPage } from '../support/chromium.ts';
import { until } from '../support/until.ts';
import { createConnector, type Connector } from '../support/management-api.ts';
import { registerClient } from '../support/connection.ts';
import { freePorts } from '../support/free-ports.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { startSystem, type System } from '../support/system.ts';

const SCHEME = 'cursor://anysphere.cursor-mcp/oauth/callback';

describe('Consent in Chromium', function () {
  this.timeout(40_000);
  const tab = useNewPage({ siteIsolation: true });
  let system: System;
  let connector: Connector;
  let hosted: NetServer;
  let hostedCallback = '';
  let onward = '';
  const callbacks: URL[] = [];
  const requested: string[] = [];
  const messages: string[] = [];
  let sites: HttpServer[] = [];

  before(async () => {
    hosted = createServer(makeCertificate(HOSTED_APP), (req, res) => {
      callbacks.push(new URL(req.url ?? '/', hostedCallback));
      res.writeHead(302, { location: onward }).end();
    });
    hostedCallback = `https://${HOSTED_APP}:${await listen(hosted)}/callback`;
    system = await startSystem({
      file: { clients: { allowedRedirects: [SCHEME, hostedCallback] } },
    });
    connector = await createConnector(system);
  });
  beforeEach(async () => {
    for (const seen of [callbacks, requested, messages]) seen.length = 0;
    const session = await tab().context().newCDPSession(tab());
    await session.send('Network.enable');
    session.on('Network.requestWillBeSent', ({ request }) => requested.push(request.url));
    tab().on('console', (message) => messages.push(message.text()));
  });
  afterEach(() => {
    for (const site of sites) site.closeAllConnections();
    for (const site of sites) site.close();
    sites = [];
  });
  after(async () => {
    hosted.close();
    await system.stop();
  });

  async function listen(server: NetServer, port = 0): Promise<number> {
    await once(server.listen(port, '127.0.0.1'), 'listening');
    return (server.address() as AddressInfo).port;
  }

  /** Another site, closed after the test. */
  async function serve(port: number, answer: RequestListener): Promise<string> {
    const site = createPlainServer(answer);
    sites.push(site);
    return `http://127.0.0.1:${await listen(site, port)}`;
  }

  async function address(redirectUri?: string): Promise<string> {
    const { server } = await discover(connector.link);
    const client = await registerClient(server, 'none', redirectUri);
    return authorizeUrl(server, client, { resource: connector.link }).url.href;
  }

  async function approve(redirectUri: string): Promise<void> {
    const page = tab();
    await page.goto(await address(redirectUri));
    await page.getByRole('button', { name: 'Ada Lovelace' }).click();
    await page.getByRole('button', { name: 'Approve' }).click({ noWaitAfter: true });
  }

  /** Resolves to the first URL that the browser requested with this start. */
  const arrival = (start: string) =>
    until(`a request for ${start}`, () => requested.find((url) => url.startsWith(start)));
  const codeIn = (url: string) => new URL(url).searchParams.get('code');
  const expectNoPolicyMessage = () =>
    expect(messages.join('\n')).to.not.match(/content security policy/i);

  it('CON-09 the response reaches an https redirect URI that redirects to a custom scheme', async () => {
    onward = 'claude://oauth/done?from=browser';
    await approve(hostedCallback);
    await arrival(onward);
    expect(callbacks[0]?.searchParams.get('code')).to.be.a('string');
    expectNoPolicyMessage();
  });

  it('CON-09 the response reaches an https redirect URI that redirects to loopback', async () => {
    const at = await serve(0, (_req, res) => res.end('done'));
    onward = `${at}/done`;
    await approve(hostedCallback);
    await arrival(onward);
    expect(callbacks[0]?.searchParams.get('code')).to.be.a('string');
    expectNoPolicyMessage();
  });

  it('CON-09 the response reaches a redirect URI with a custom scheme', async () => {
    await approve(SCHEME);
    expect(codeIn(await arrival(`${SCHEME}?`))).to.be.a('string');
    expectNoPolicyMessage();
  });

  it('CON-09 the response reaches a loopback redirect URI', async () => {
    const [port = 0] = await freePorts(1);
    const at = await serve(port, (_req, res) => res.end('done'));
    await approve(`${at}/callback`);
    expect(codeIn(await arrival(`${at}/callback?`))).to.be.a('string');
    expectNoPolicyMessage();
  });

  it('CON-08 no page of the authorization server is shown in a frame of another site', async () => {
    const targets = [await address(), `${system.auth}/`, `${system.auth}/oauth/authorize`];
    const frames = targets.map((src) => `<iframe src="${src.replaceAll('&', '&amp;')}"></iframe>`);
    const at = await serve(0, (_req, res) => {
      res.setHeader('content-type', 'text/html');
      res.end(frames.join(''));
    });
    const page = tab();
    await page.goto(at);
    const shown = page.frames().filter((frame) => frame !== page.mainFrame());
    expect(shown).to.have.length(targets.length);
    for (const frame of shown)
      expect(await frame.locator('h1').filter({ visible: true }).allTextContents()).to.not.match(
        /connect|gatehouse|app/i,
      );
    expect(shown.every((frame) => frame.url().startsWith('chrome-error://'))).to.equal(true);
  });

  it('CON-11 a prefetch starts no authorization, and the click does', async () => {
    const target = await address();
    const at = await serve(0, (_req, res) => {
      const href = target.replaceAll('&', '&amp;');
      res.setHeader('content-type', 'text/html');
      const loaded = 'document.title = "prefetched"';
      res.end(
        `<link rel="prefetch" href="${href}" onload='${loaded}' onerror='${loaded}'><a href="${href}">connect</a>`,
      );
    });
    const { interaction: before } = await countStoredKeys(system);
    const page = tab();
    await page.goto(at);
    await until('the page to be prefetched', async () => (await page.title()) === 'prefetched');
    expect((await countStoredKeys(system)).interaction).to.equal(before);
    await page.getByText('connect').click();
    await page.getByRole('button', { name: 'Ada Lovelace' }).waitFor();
  });

  it('CON-11 DOS-03 images and frames of another site start no authorization and do not prevent one', async () => {
    const target = await address();
    const src = target.replaceAll('&', '&amp;');
    const loads = Array.from(
      { length: 5 },
      (_, n) => `<img src="${src}&amp;n=${n}"><iframe src="${src}&amp;n=${n}"></iframe>`,
    );
    const at = await serve(0, (_req, res) => {
      res.setHeader('content-type', 'text/html');
      res.end(`${loads.join('')}<a href="${src}">connect</a>`);
    });
    const { interaction: before } = await countStoredKeys(system);
    const page = tab();
    await page.goto(at);
    expect((await countStoredKeys(system)).interaction).to.equal(before);
    await page.getByText('connect').click();
    await page.getByRole('button', { name: 'Ada Lovelace' }).waitFor();
  });

  it('CON-13 two authorizations in two tabs send each app its own response', async () => {
    const at = await serve(0, (req, res) => {
      callbacks.push(new URL(req.url ?? '/', 'http://127.0.0.1'));
      res.end('done');
    });
    const tabs: { page: Page; app: string }[] = [];
    const second = await tab().context().newPage();
    for (const [app, page] of [
      ['one', tab()],
      ['two', second],
    ] as const) {
      await page.goto(await address(`${at}/${app}`));
      tabs.push({ page, app });
    }
    for (const { page } of tabs) await page.getByRole('button', { name: 'Ada Lovelace' }).click();
    for (const { page } of tabs.toReversed())
      await page.getByRole('button', { name: 'Approve' }).click();
    for (const { page, app } of tabs) {
      await page.getByText('done').waitFor();
      expect(new URL(page.url()).pathname).to.equal(`/${app}`);
      expect(new URL(page.url()).searchParams.has('code')).to.equal(true);
    }
  });
});
