import { once } from 'node:events';
import { createServer, type Server as HttpsServer } from 'node:https';
import { expect } from 'chai';
import { makeCertificate } from '../authorization-server/metadata-documents/certificate.ts';
import { HOSTED_APP, useNewPage, usePage } from '../support/chromium.ts';
import {
  createConnector,
  revokeConnector,
  type ConnectorOptions,
} from '../support/management-api.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, redeem, registerClient } from '../support/connection.ts';
import { freePorts } from '../support/free-ports.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { startSystem, type System } from '../support/system.ts';

const QUARTER_OF_AN_HOUR = 900;

describe('Error pages and callbacks in Chromium', function () {
  this.timeout(40_000);
  let system: System;
  const tab = useNewPage();
  let app: HttpsServer;
  let origin: string;
  let callbacks: URL[];
  let said: string[];

  before(async () => {
    const [port = 0] = await freePorts(1);
    origin = `https://${HOSTED_APP}:${port}`;
    app = await listen(port);
    const allowedRedirects = [
      `${origin}/callback`,
      `${origin}/to-the-app`,
      'example-app://callback',
    ];
    system = await startSystem({ file: { clients: { allowedRedirects } } });
  });
  beforeEach(() => {
    callbacks = [];
    said = [];
    tab().on('console', (message) => said.push(message.text()));
    tab().on('pageerror', (error) => said.push(String(error)));
  });
  afterEach(() => {
    restoreClock();
    // Error pages have an error status, and Chromium logs a message when it goes back to one.
    expect(said.filter((line) => !/status of [45]\d\d/.test(line))).to.deep.equal([]);
  });
  after(async () => {
    app.closeAllConnections();
    app.close();
    await system.stop();
  });

  /** A hosted app: one callback shows a success page, the other passes the code to a custom scheme. */
  async function listen(port: number): Promise<HttpsServer> {
    const server = createServer(makeCertificate(HOSTED_APP), (req, res) => {
      const url = new URL(req.url ?? '/', origin);
      if (url.pathname === '/favicon.ico') return void res.writeHead(204).end();
      callbacks.push(url);
      server.emit('callback', url);
      if (url.pathname === '/to-the-app')
        res.writeHead(302, { location: `example-app://callback${url.search}` }).end();
      else res.end('back in the app');
    });
    await once(server.listen(port, '127.0.0.1'), 'listening');
    return server;
  }

  async function prepare(wanted: ConnectorOptions = {}, redirectUri = `${origin}/callback`) {
    const connector = await createConnector(system, wanted);
    const { link } = connector;
    const { server } = await discover(link);
    const client = await registerClient(server, 'none', redirectUri);
    return { connector, link, server, client, ...authorizeUrl(server, client, { resource: link }) };
  }

  async function consentAs(url: URL, person = 'Ada Lovelace') {
    await tab().goto(url.href);
    await tab().getByRole('button', { name: person }).click();
    await tab().getByRole('heading', { level: 1 }).waitFor();
  }

  const press = (name: string) => tab().getByRole('button', { name, exact: true }).click();
  const shows = (name: string) =>
    tab().getByRole('heading', { level: 1, name, exact: true }).waitFor();

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

  it('a hosted app receives the code at its https callback', async () => {
    const { url, ...started } = await prepare();
    await consentAs(url);
    expect(await tab().locator('#local-warning').count()).to.equal(0);
    await press('Approve');
    await tab().getByText('back in the app').waitFor();
    const [callback] = callbacks;
    if (!callback) throw new Error('the app was not called back');
    const { body } = await redeem({ ...started, callback });
    expect(await isAccepted(started.link, body.access_token)).to.equal(true);
  });

  it('a hosted app can pass the code to a custom scheme', async () => {
    const { url, ...started } = await prepare({}, `${origin}/to-the-app`);
    await consentAs(url);
    const called = once(app, 'callback');
    await press('Approve');
    const [callback] = (await called) as [URL];
    expect((await redeem({ ...started, callback })).status).to.equal(200);
  });

  it('an app with a custom scheme receives the code, and the page left behind says that it was approved', async () => {
    const { url } = await prepare({}, 'example-app://callback');
    await consentAs(url);
    expect(await tab().locator('#local-warning').innerText()).to.include(
      'This opens an app on this computer',
    );
    const consent = tab().url();
    const answered = tab().waitForResponse(
      (response) => response.status() === 303 && response.url() !== consent,
    );
    await press('Approve');
    const location = (await (await answered).allHeaders())['location'];
    expect(location).to.match(/^example-app:\/\/callback\?code=/);
    await tab().goto(consent);
    await shows('You have approved this already');
    expect(await tab().locator('main').innerText()).to.include('example-app');
  });

  it('a page whose interaction has expired says what to do', async () => {
    const { url } = await prepare();
    await consentAs(url);
    advanceClock(QUARTER_OF_AN_HOUR + 1);
    await press('Approve');
    await shows('This page is out of date');
    expect(await tab().locator('#advice + p').innerText()).to.include('connect again from there');
    expect(callbacks).to.deep.equal([]);
  });

  it('a link that was revoked meanwhile cannot be approved', async () => {
    const { url, connector } = await prepare();
    await consentAs(url);
    await revokeConnector(system, connector.id);
    await press('Approve');
    await shows('This connect link does not work');
    await tab().goto(url.href);
    await shows('This connect link does not work');
    expect(callbacks).to.deep.equal([]);
  });

  it('a link without uses left says so and leads back to the app', async () => {
    const { url, connector } = await prepare({ maxUses: 1 });
    await connect(system, connector, { person: 'grace' });
    await consentAs(url);
    await shows(`The connect link for ${connector.name} is used up`);
    await press('Cancel and go back to the app');
    await tab().getByText('back in the app').waitFor();
    expect(callbacks[0]?.searchParams.get('error')).to.equal('access_denied');
    await tab().goBack();
    await shows('You have denied this already');
  });

  it('a person without access is told so and can switch the account', async () => {
    const { url, connector } = await prepare();
    await consentAs(url, 'Alan Turing');
    await shows(`You may not use ${connector.name}`);
    await press('Use another account');
    await tab().getByRole('button', { name: 'Grace Hopper' }).click();
    await press('Approve');
    await tab().getByText('back in the app').waitFor();
    expect(callbacks[0]?.searchParams.has('code')).to.equal(true);
  });

  it('an error page shows the reference that is also in the response header and the log', async () => {
    const { url } = await prepare();
    url.searchParams.set('client_id', 'nobody');
    const response = await tab().goto(url.href);
    const reference = await tab().locator('.reference dd').first().innerText();
    expect(reference)
      .to.match(/^[\w-]{6,}$/)
      .and.to.equal(response?.headers()['x-request-id']);
  });
});

describe('Chromium while the identity provider is down', () => {
  const tab = usePage();

  it('the page says that signing in is unavailable', async () => {
    const [port = 0] = await freePorts(1);
    const system = await startSystem({
      settings: { GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
      file: {
        developmentIdp: undefined,
        identityProvider: { issuer: `http://localhost:${port}`, clientId: 'gatehouse' },
      },
    });
    try {
      const { link } = await createConnector(system);
      const { server } = await discover(link);
      const client = await registerClient(server);
      const { url } = authorizeUrl(server, client, { resource: link });
      expect((await tab().goto(url.href))?.status()).to.equal(503);
      expect(await tab().getByRole('heading', { level: 1 }).innerText()).to.equal(
        'Signing in does not work just now',
      );
    } finally {
      await system.stop();
    }
  });
});
