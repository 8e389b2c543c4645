// Settings that are switched off while clients, connections and codes that used them are stored.
import { expect } from 'chai';
import {
  DOMAIN,
  type DocumentHost,
  publish,
  startDocumentHost,
} from '../oauth/metadata-documents/document-host.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import { connect, type Connection } from '../support/connection.ts';
import { askForDevice, DEVICE_CODE, enterCode, poll } from '../support/device.ts';
import { type IdJagIssuer, startIdJagIssuer } from '../support/id-jag-issuer.ts';
import { type Connector, createConnector } from '../support/management-api.ts';
import { authorizeUrl, type Client, discover, refresh, register } from '../support/oauth.ts';
import { restartSystem } from '../support/restart.ts';
import {
  createDeployment,
  startDeployment,
  type Deployment,
  type System,
} from '../support/system.ts';

const LOOPBACK = 'http://127.0.0.1:7070/callback';
const HOSTED = 'https://app.partner.example/callback';
const DOCUMENT = `https://app.${DOMAIN}/client.json`;
const ALL_GRANTS = ['authorization_code', 'refresh_token', DEVICE_CODE];

const APPS = {
  'on two addresses': [HOSTED, LOOPBACK],
  'on the address that is no longer allowed': [HOSTED],
  'without an address': [],
} as const;

describe('A stored client after settings were switched off', () => {
  let documents: DocumentHost;
  let issuer: IdJagIssuer;
  let place: Deployment;
  let system: System | undefined;
  let connector: Connector;
  const connections = new Map<string, Connection>();
  const clients = new Map<string, Client>();

  before(async () => {
    [documents, issuer] = await Promise.all([startDocumentHost(), startIdJagIssuer()]);
    documents.answer = publish({ redirect_uris: [HOSTED, LOOPBACK], grant_types: ALL_GRANTS });
    const options = { documentFetching: { network: documents.network } };
    const trusted = { id: 'company', issuer: issuer.issuer, jwksUri: issuer.jwksUri };
    place = await createDeployment({
      file: {
        authorization: {
          deviceGrant: true,
          trustedIssuers: [{ ...trusted, clients: [DOCUMENT] }],
        },
        clients: { allowedRedirects: [HOSTED] },
      },
    });
    system = await startDeployment(place, {}, options);
    connector = await createConnector(system);
    const { server } = await discover(connector.link);
    for (const [name, redirects] of Object.entries(APPS)) {
      const { body } = await register(server, {
        client_name: name,
        redirect_uris: redirects,
        grant_types: ALL_GRANTS,
        token_endpoint_auth_method: 'none',
      });
      const [redirectUri = ''] = redirects;
      const client: Client = { id: String(body.client_id), method: 'none', redirectUri };
      clients.set(name, client);
      connections.set(name, await connected(client));
    }
    const client: Client = { id: DOCUMENT, method: 'none', redirectUri: HOSTED };
    connections.set(
      'with a metadata document',
      await connect(system, connector, { as: { client } }),
    );
    await system.stop();
    system = await restartSystem(
      place,
      { authorization: { deviceGrant: false }, clients: {} },
      {},
      options,
    );
  });
  after(async () => {
    await system?.stop();
    await Promise.all([documents?.stop(), issuer?.stop()]);
    await place?.release();
  });

  const running = (): System => {
    if (!system) throw new Error('nothing runs');
    return system;
  };

  async function connected(client: Client): Promise<Connection> {
    if (client.redirectUri !== '') return connect(running(), connector, { as: { client } });
    const { server } = await discover(connector.link);
    const { body: asked } = await askForDevice(server, client, { resource: connector.link });
    const browser = openBrowser(running().origins);
    const consent = await enterCode(browser, asked.verification_uri, asked.user_code);
    await browser.submit(consent, { decision: 'approve' });
    const { body } = await poll(server, client, asked.device_code);
    const { access_token: accessToken = '', refresh_token: refreshToken, scope } = body;
    return { link: connector.link, server, client, browser, accessToken, refreshToken, scope };
  }

  for (const name of [...Object.keys(APPS), 'with a metadata document'])
    it(`an app ${name} refreshes its connection`, async () => {
      const connection = connections.get(name);
      if (!connection) throw new Error(name);
      const { server, client, refreshToken } = connection;
      const { status, body } = await refresh(server, client, refreshToken);
      expect([status, body.error_description]).to.deep.equal([200, undefined]);
    });

  it('an app connects again through an address that is still allowed', async () => {
    for (const id of [clients.get('on two addresses')?.id ?? '', DOCUMENT]) {
      const client: Client = { id, method: 'none', redirectUri: LOOPBACK };
      const { accessToken } = await connect(running(), connector, { as: { client } });
      expect(accessToken).to.be.a('string');
    }
  });

  it('an app is refused at an address that is no longer allowed', async () => {
    const { server } = await discover(connector.link);
    const ids = [...clients.values()].map(({ id }) => id);
    for (const id of [...ids, DOCUMENT]) {
      const client: Client = { id, method: 'none', redirectUri: HOSTED };
      const { url } = authorizeUrl(server, client, { resource: connector.link });
      const page = requirePage(await openBrowser(running().origins).visit(url));
      expect(page.status).to.equal(400);
      expect(page.html).to.include('redirect address');
    }
  });
});
