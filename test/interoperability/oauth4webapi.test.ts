// oauth4webapi, a strict client, uses every grant (RFC 6749, 7009, 7523, 7662, 8414, 8628, 9068, 9728).
import { expect } from 'chai';
import { exportJWK, generateKeyPair } from 'jose';
import * as oauth from 'oauth4webapi';
import { z } from 'zod';
import { openBrowser, requirePage } from '../support/browser.ts';
import { enterCode } from '../support/device.ts';
import { type Connector, createConnector, requestManagement } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { useSystem } from '../support/system.ts';

const CALLBACK = 'https://reports.example.com/callback';
const SECRET = 'secret-of-the-strict-client-0123456789';
const INSECURE = { [oauth.allowInsecureRequests]: true };
const key = await generateKeyPair('ES256', { extractable: true });
const jwk = await exportJWK(key.publicKey);
/** A machine with a key has no secret. */
const machine = z.object({ id: z.string(), secret: z.string().default('') });
const signed = () => oauth.PrivateKeyJwt(key.privateKey);

const CLIENTS = [
  { id: 'strict.public', method: 'no secret', members: {}, authenticate: oauth.None },
  {
    id: 'strict.basic',
    method: 'client_secret_basic',
    members: { secret: SECRET },
    authenticate: () => oauth.ClientSecretBasic(SECRET),
  },
  {
    id: 'strict.post',
    method: 'client_secret_post',
    members: { secret: SECRET },
    authenticate: () => oauth.ClientSecretPost(SECRET),
  },
  {
    id: 'strict.key',
    method: 'private_key_jwt',
    members: { jwks: { keys: [jwk] } },
    authenticate: signed,
  },
];

describe('The strict client oauth4webapi', () => {
  const system = useSystem({
    file: {
      authorization: { introspectionClients: [{ id: 'figures-api', secret: SECRET }] },
      clients: {
        preRegistered: CLIENTS.map(({ id, members }) => ({
          id,
          name: 'Strict client',
          redirectUris: [CALLBACK],
          ...members,
        })),
      },
    },
  });
  let connector: Connector;
  let as: oauth.AuthorizationServer;
  before(async () => {
    connector = await createConnector(system());
    const link = new URL(connector.link);
    const found = await oauth.resourceDiscoveryRequest(link, INSECURE);
    const resource = await oauth.processResourceDiscoveryResponse(link, found);
    const issuer = new URL(resource.authorization_servers?.[0] ?? '');
    const metadata = await oauth.discoveryRequest(issuer, { ...INSECURE, algorithm: 'oauth2' });
    as = await oauth.processDiscoveryResponse(issuer, metadata);
  });

  const withResource = () => ({
    ...INSECURE,
    additionalParameters: { resource: connector.link },
  });

  async function isActive(token: string): Promise<boolean> {
    const client = { client_id: 'figures-api' };
    const authentication = oauth.ClientSecretBasic(SECRET);
    const response = await oauth.introspectionRequest(as, client, authentication, token, INSECURE);
    return (await oauth.processIntrospectionResponse(as, client, response)).active;
  }

  async function expectValid(token: string, clientId: string): Promise<void> {
    const headers = { authorization: `Bearer ${token}` };
    const request = new Request(connector.link, { headers });
    const claims = await oauth.validateJwtAccessToken(as, request, connector.link, INSECURE);
    expect(claims.client_id).to.equal(clientId);
    expect(await isAccepted(connector.link, token)).to.equal(true);
    expect(await isActive(token)).to.equal(true);
  }

  for (const { id, method, authenticate } of CLIENTS) {
    const client: oauth.Client = { client_id: id };

    it(`KEY-06 the client exchanges a code, refreshes and revokes with ${method}`, async () => {
      const verifier = oauth.generateRandomCodeVerifier();
      const state = oauth.generateRandomState();
      const url = new URL(String(as.authorization_endpoint));
      url.search = new URLSearchParams({
        response_type: 'code',
        client_id: id,
        redirect_uri: CALLBACK,
        code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        resource: connector.link,
        state,
      }).toString();
      const callback = await openBrowser(system().origins).authorize(url);
      const code = oauth.validateAuthResponse(as, client, callback, state);
      const exchanged = await oauth.authorizationCodeGrantRequest(
        as,
        client,
        authenticate(),
        code,
        CALLBACK,
        verifier,
        withResource(),
      );
      const tokens = await oauth.processAuthorizationCodeResponse(as, client, exchanged);
      await expectValid(tokens.access_token, id);
      const refreshed = await oauth.refreshTokenGrantRequest(
        as,
        client,
        authenticate(),
        tokens.refresh_token ?? '',
        withResource(),
      );
      const next = await oauth.processRefreshTokenResponse(as, client, refreshed);
      await expectValid(next.access_token, id);
      const token = next.refresh_token ?? '';
      expect(await isActive(token)).to.equal(true);
      await oauth.processRevocationResponse(
        await oauth.revocationRequest(as, client, authenticate(), token, INSECURE),
      );
      expect(await isActive(token)).to.equal(false);
    });

    it(`DEV-10 the client connects a device with ${method}`, async () => {
      const asked = await oauth.deviceAuthorizationRequest(
        as,
        client,
        authenticate(),
        { resource: connector.link },
        INSECURE,
      );
      const device = await oauth.processDeviceAuthorizationResponse(as, client, asked);
      const browser = openBrowser(system().origins);
      const page = await enterCode(browser, device.verification_uri, device.user_code);
      requirePage(await browser.submit(page, { decision: 'approve' }));
      const polled = await oauth.deviceCodeGrantRequest(
        as,
        client,
        authenticate(),
        device.device_code,
        withResource(),
      );
      const tokens = await oauth.processDeviceCodeResponse(as, client, polled);
      await expectValid(tokens.access_token, id);
    });
  }

  for (const method of ['client_secret_basic', 'client_secret_post', 'private_key_jwt'])
    it(`a machine gets and revokes a token with ${method}`, async () => {
      const keys = method === 'private_key_jwt' ? { jwks: { keys: [jwk] } } : {};
      const { id, secret } = await createMachine(keys);
      const authentication = () => {
        if (method === 'private_key_jwt') return signed();
        return method === 'client_secret_post'
          ? oauth.ClientSecretPost(secret)
          : oauth.ClientSecretBasic(secret);
      };
      const client = { client_id: id };
      const parameters = { resource: connector.link };
      const tokens = await oauth.processClientCredentialsResponse(
        as,
        client,
        await oauth.clientCredentialsGrantRequest(
          as,
          client,
          authentication(),
          parameters,
          INSECURE,
        ),
      );
      await expectValid(tokens.access_token, id);
      await oauth.processRevocationResponse(
        await oauth.revocationRequest(as, client, authentication(), tokens.access_token, INSECURE),
      );
      expect(await isActive(tokens.access_token)).to.equal(false);
    });

  async function createMachine(keys: object): Promise<{ id: string; secret: string }> {
    const given = { name: 'CI', connector: connector.id, level: connector.level, ...keys };
    const created = await requestManagement(system(), 'POST', '/clients', given);
    return machine.parse(created);
  }
});
