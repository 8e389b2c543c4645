import { once } from 'node:events';
import {
  createServer as createPlainServer,
  type RequestListener,
  type Server as HttpServer,
} from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Server as NetServer } from 'node:net';
import { expect } from 'chai';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { makeCertificate } from '../authorization-server/metadata-documents/certificate.ts';
import { launchChromium } from '../support/chromium.ts';
import { until } from '../support/until.ts';
import { createConnector, type Connector } from '../support/management-api.ts';
import { registerClient } from '../support/connection.ts';
import { freePorts } from '../support/free-ports.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { useSystem } from '../support/system.ts';

const HOSTED = 'https://claude.ai/api/mcp/auth_callback';
const SCHEME = 'cursor://anysphere.cursor-mcp/oauth/callback';

describe('Consent in Chromium', function () {
  this.timeout(40_000);
  const system = useSystem({ file: { clients: { allowedRedirects: [SCHEME] } } });
  let chromium: Browser;
  let context: BrowserContext;
  let connector: Connector;
  let hosted: NetServer;
  let onward = '';
  const callbacks: URL[] = [];
  let sites: HttpServer[] = [];

  before(async () => {
    connector = await createConnector(system());
    hosted = createServer(makeCertificate('claude.ai'), (req, res) => {
      callbacks.push(new URL(req.url ?? '/', HOSTED));
      res.writeHead(302, { location: onward }).end();
    });
    const port = await listen(hosted);
    chromium = await launchChromium([`--host-resolver-rules=MAP claude.ai:443 127.0.0.1:${port}`]);
  });
  beforeEach(async () => {
    callbacks.length = 0;
    context = await chromium.newContext({ ignoreHTTPSErrors: true });
  });
  afterEach(async () => {
    await context.close();
    for (const site of sites) site.closeAllConnections();
    for (const site of sites) site.close();
    sites = [];
  });
  after(async () => {
    await chromium.close();
    hosted.close();
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

  /** Approves, and records every requested URL and console message. */
  async function approve(redirectUri: string) {
    const page = await context.newPage();
    const session = await context.newCDPSession(page);
    const asked: string[] = [];
    const messages: string[] = [];
    await session.send('Network.enable');
    session.on('Network.requestWillBeSent', ({ request }) => asked.push(request.url));
    page.on('console', (message) => messages.push(message.text()));
    await page.goto(await address(redirectUri));
    await page.getByRole('button', { name: 'Ada Lovelace' }).click();
    await page.getByRole('button', { name: 'Approve' }).click({ noWaitAfter: true });
    const arrived = (start: string) =>
      until(`a request for ${start}`, async () => asked.some((url) => url.startsWith(start)));
    const codeAt = (start: string) =>
      new URL(asked.find((url) => url.startsWith(start)) ?? start).searchParams.get('code');
    return { asked, messages: () => messages.join('\n'), arrived, codeAt };
  }

  it('CON-09 the response reaches an https redirect URI that redirects to a custom scheme', async () => {
    onward = 'claude://oauth/done?from=browser';
    const { arrived, messages } = await approve(HOSTED);
    await arrived(onward);
    expect(callbacks[0]?.searchParams.get('code')).to.be.a('string');
    expect(messages()).to.not.match(/content security policy/i);
  });

  it('CON-09 the response reaches an https redirect URI that redirects to loopback', async () => {
    const at = await serve(0, (_req, res) => res.end('done'));
    onward = `${at}/done`;
    const { arrived, messages } = await approve(HOSTED);
    await arrived(onward);
    expect(callbacks[0]?.searchParams.get('code')).to.be.a('string');
    expect(messages()).to.not.match(/content security policy/i);
  });

  it('CON-09 the response reaches a redirect URI with a custom scheme', async () => {
    const { arrived, codeAt, messages } = await approve(SCHEME);
    await arrived(`${SCHEME}?`);
    expect(codeAt(`${SCHEME}?`)).to.be.a('string');
    expect(messages()).to.not.match(/content security policy/i);
  });

  it('CON-09 the response reaches a loopback redirect URI', async () => {
    const [port = 0] = await freePorts(1);
    const at = await serve(port, (_req, res) => res.end('done'));
    const { arrived, codeAt, messages } = await approve(`${at}/callback`);
    await arrived(`${at}/callback?`);
    expect(codeAt(`${at}/callback?`)).to.be.a('string');
    expect(messages()).to.not.match(/content security policy/i);
  });

  it('CON-08 no page of the authorization server is shown in a frame of another site', async () => {
    const targets = [await address(), `${system().auth}/`, `${system().auth}/oauth/authorize`];
    const frames = targets.map((src) => `<iframe src="${src.replaceAll('&', '&amp;')}"></iframe>`);
    const at = await serve(0, (_req, res) => {
      res.setHeader('content-type', 'text/html');
      res.end(frames.join(''));
    });
    const page = await context.newPage();
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
    const { interaction: before } = await countStoredKeys(system());
    const page = await context.newPage();
    await page.goto(at);
    await until('the page to be prefetched', async () => (await page.title()) === 'prefetched');
    expect((await countStoredKeys(system())).interaction).to.equal(before);
    await page.getByText('connect').click();
    await page.getByRole('button', { name: 'Ada Lovelace' }).waitFor();
  });

  it('CON-11 DOS-03 images and frames of another site start no authorization and do not prevent one', async () => {
    const target = await address();
    const src = target.replaceAll('&', '&amp;');
    const loads = Array.from(
      { length: 20 },
      (_, n) => `<img src="${src}&amp;n=${n}"><iframe src="${src}&amp;n=${n}"></iframe>`,
    );
    const at = await serve(0, (_req, res) => {
      res.setHeader('content-type', 'text/html');
      res.end(`${loads.join('')}<a href="${src}">connect</a>`);
    });
    const { interaction: before } = await countStoredKeys(system());
    const page = await context.newPage();
    await page.goto(at);
    expect((await countStoredKeys(system())).interaction).to.equal(before);
    await page.getByText('connect').click();
    await page.getByRole('button', { name: 'Ada Lovelace' }).waitFor();
  });

  it('CON-13 two authorizations in two tabs send each app its own response', async () => {
    const at = await serve(0, (req, res) => {
      callbacks.push(new URL(req.url ?? '/', 'http://127.0.0.1'));
      res.end('done');
    });
    const tabs: { page: Page; app: string }[] = [];
    for (const app of ['one', 'two']) {
      const page = await context.newPage();
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
