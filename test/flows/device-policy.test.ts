// The device grant with settings that restrict clients, levels or sign-ins.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { isConsentPage, isSignInPage, openBrowser, requirePage } from '../support/browser.ts';
import { askForDevice, DEVICE_CODE, enterCode, poll } from '../support/device.ts';
import { createProof, generateProofKey, requestBound } from '../support/dpop.ts';
import { type Connector, createConnector, requestManagement } from '../support/management-api.ts';
import { type Client, discover, register, requestToken, type Server } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

const TERMINAL: Client = {
  id: 'terminal',
  secret: 's'.repeat(40),
  method: 'client_secret_basic',
  redirectUri: 'https://app.example/cb',
};
const LOOPBACK = ['http://127.0.0.1:7070/callback'];

describe('The device grant with restrictive settings', () => {
  const people = [{ id: 'ada', name: 'Ada', email: 'ada@example.com' }];
  const stepUp = { levels: ['full'], maxAge: '5m', acrValues: ['phr'] };
  const system = useSystem({
    file: {
      developmentIdp: { url: 'http://localhost:4003', people, stepUp },
      authorization: { requireDpop: 'analytics', defaultConnector: 'The default link' },
      clients: {
        registration: 'approval',
        preRegistered: [
          {
            id: TERMINAL.id,
            name: 'Terminal',
            secret: TERMINAL.secret,
            redirectUris: [TERMINAL.redirectUri],
          },
        ],
      },
    },
  });
  let connector: Connector;
  let server: Server;
  before(async () => {
    connector = await createConnector(system(), { name: 'The default link', level: 'full' });
    ({ server } = await discover(connector.link));
  });

  const newBrowser = () => openBrowser(system().origins);
  async function registered(client_name: string, ...grants: string[]): Promise<Client> {
    const { body } = await register(server, {
      client_name,
      redirect_uris: LOOPBACK,
      grant_types: ['authorization_code', ...grants],
      token_endpoint_auth_method: 'none',
    });
    return { id: body.client_id ?? '', method: 'none', redirectUri: LOOPBACK[0] ?? '' };
  }
  async function pageFor(client: Client) {
    const { body } = await askForDevice(server, client, { resource: connector.link });
    return enterCode(newBrowser(), body.verification_uri, body.user_code);
  }
  const allow = (client: Client) =>
    requestManagement(system(), 'POST', '/clients/allow', { id: client.id, app: true });

  it('DEV-06 DEV-08 a device needs a sign-in for a level with step-up, and tokens with DPoP are bound, while requests without consume nothing', async () => {
    const { body: device } = await askForDevice(server, TERMINAL, {});
    const browser = newBrowser();
    const page = await enterCode(browser, device.verification_uri, device.user_code);
    const question = requirePage(
      await browser.submit(page, { decision: 'approve', level: 'full' }),
    );
    expect(isSignInPage(question)).to.equal(true);
    expect((await poll(server, TERMINAL, device.device_code)).body.error).to.equal(
      'authorization_pending',
    );
    const done = requirePage(await browser.submit(question, { person: 'ada' }));
    expect(done.html).to.contain('Go back to your device');
    const unbound = await poll(server, TERMINAL, device.device_code);
    expect(unbound.body.error).to.equal('invalid_dpop_proof');
    const key = await generateProofKey();
    const request = { grant_type: DEVICE_CODE, device_code: device.device_code };
    const proof = await createProof(key, { url: server.token_endpoint });
    const other = { ...request, resource: `${connector.link}x` };
    expect((await requestBound(key, server, TERMINAL, other)).body.error).to.equal(
      'invalid_target',
    );
    const { body } = await requestToken(server, TERMINAL, request, { dpop: proof });
    expect(body).to.include({ token_type: 'DPoP', scope: 'full offline_access' });
    const claims = decodeJwt(String(body.access_token));
    expect(claims).to.deep.include({ aud: connector.link, cnf: { jkt: key.thumbprint } });
  });

  it('DEV-08 a new app waits for an administrator, also on a device', async () => {
    const client = await registered('New terminal', DEVICE_CODE);
    expect((await pageFor(client)).html).to.contain('An administrator must allow this app first');
    await allow(client);
    expect(isConsentPage(await pageFor(client))).to.equal(true);
    const again = await registered('New terminal', DEVICE_CODE);
    expect(isConsentPage(await pageFor(again))).to.equal(true);
  });

  it('DEV-08 an app that was allowed for its redirect hosts alone waits again on a device', async () => {
    await allow(await registered('Editor'));
    const imitation = await registered('Editor', DEVICE_CODE);
    expect((await pageFor(imitation)).status).to.equal(403);
    const { items } = (await requestManagement(system(), 'GET', `/clients?id=${imitation.id}`)) as {
      items: { usesDevice?: boolean }[];
    };
    expect(items[0]?.usesDevice).to.equal(true);
  });
});

describe('Without the device grant', () => {
  const system = useSystem({ file: { authorization: { deviceGrant: false } } });

  it('DEV-09 endpoint, page and grant type do not exist, and registrations drop it', async () => {
    const { auth } = system();
    const { server } = await discover((await createConnector(system())).link);
    expect(server.device_authorization_endpoint).to.equal(undefined);
    expect(server.grant_types_supported).not.to.include(DEVICE_CODE);
    expect((await fetch(`${auth}/oauth/device`, { method: 'POST' })).status).to.equal(404);
    expect((await fetch(`${auth}/device`)).status).to.equal(404);
    const { body } = await register(server, {
      redirect_uris: LOOPBACK,
      grant_types: ['authorization_code', DEVICE_CODE],
      token_endpoint_auth_method: 'none',
    });
    expect(body.grant_types).to.deep.equal(['authorization_code', 'refresh_token']);
    const client: Client = { id: body.client_id ?? '', method: 'none', redirectUri: '' };
    expect((await poll(server, client, 'x')).body.error).to.equal('unsupported_grant_type');
    expect((await register(server, { grant_types: [DEVICE_CODE] })).status).to.equal(400);
  });
});
