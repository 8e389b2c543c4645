import { expect } from 'chai';
import {
  Client,
  CrossAppAccessProvider,
  exchangeJwtAuthGrant,
  requestJwtAuthorizationGrant,
  StreamableHTTPClientTransport,
  type VersionNegotiationMode,
} from '@modelcontextprotocol/client';
import {
  type Connector,
  createConnector,
  listGrants,
  requestManagement,
} from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { discover } from '../support/oauth.ts';
import { startSystem, type System } from '../support/system.ts';
import { startIdJagIssuer, type IdJagIssuer } from '../support/id-jag-issuer.ts';
import { idOf } from '../support/id-jag-system.ts';

const APP = { clientId: 'assistant', clientSecret: 'the-secret-of-the-assistant-0123456789' };
const AT_ISSUER = { clientId: 'assistant-at-the-company', clientSecret: 'another-secret' };
const MODES: VersionNegotiationMode[] = ['legacy', { pin: '2026-07-28' }];

describe('SDK v2 with cross-app access', () => {
  let system: System;
  let idp: IdJagIssuer;
  let connector: Connector;
  before(async () => {
    idp = await startIdJagIssuer((sent) => ({
      aud: sent.get('audience'),
      resource: sent.get('resource'),
      scope: sent.get('scope') ?? undefined,
      client_id: APP.clientId,
      sub: sent.get('subject_token'),
    }));
    const { clientId: id, clientSecret: secret } = APP;
    system = await startSystem({
      file: {
        entitlements: [
          { match: { anyone: true, provider: idOf(idp.issuer) }, level: 'operations' },
        ],
        clients: {
          preRegistered: [
            { id, secret, name: 'Assistant', redirectUris: ['https://assistant.example.com/cb'] },
          ],
        },
        authorization: {
          trustedIssuers: [{ issuer: idp.issuer, jwksUri: idp.jwksUri, clients: [id] }],
        },
      },
    });
    connector = await createConnector(system);
  });
  after(async () => {
    await system?.stop();
    await idp.stop();
  });

  function requestGrant(idToken: string, audience: string, resource: string, scope?: string) {
    return requestJwtAuthorizationGrant({
      ...AT_ISSUER,
      tokenEndpoint: `${idp.issuer}/token`,
      idToken,
      audience,
      resource,
      ...(scope === undefined ? {} : { scope }),
    });
  }

  /** `person` stands for the ID token of the person who signed in to the app. */
  function openProvider(person: string) {
    return new CrossAppAccessProvider({
      ...APP,
      expectedIssuer: system.auth,
      assertion: async ({ authorizationServerUrl, resourceUrl, scope }) =>
        (await requestGrant(person, authorizationServerUrl, resourceUrl, scope)).jwtAuthGrant,
    });
  }

  for (const mode of MODES) {
    it(`the client connects and calls tools, with protocol version ${JSON.stringify(mode)}`, async () => {
      const authProvider = openProvider(`ada ${JSON.stringify(mode)}`);
      const client = new Client(
        { name: 'assistant', version: '1.0.0' },
        { versionNegotiation: { mode } },
      );
      await client.connect(
        new StreamableHTTPClientTransport(new URL(connector.link), { authProvider }),
      );
      const { structuredContent } = await client.callTool({ name: 'club_overview', arguments: {} });
      expect(structuredContent).to.be.an('object');
      expect(authProvider.tokens()).to.include({ token_type: 'Bearer', scope: 'operations' });
      expect(authProvider.tokens()).to.not.have.any.keys('refresh_token');
      await client.close();
    });
  }

  it('the client gets a new token by itself after an administrator ended its grant', async () => {
    const authProvider = openProvider('grace');
    const client = new Client({ name: 'assistant', version: '1.0.0' });
    await client.connect(
      new StreamableHTTPClientTransport(new URL(connector.link), { authProvider }),
    );
    const before = authProvider.tokens()?.access_token;
    const { items } = await listGrants(system, { connector: connector.id, state: 'active' });
    await Promise.all(items.map(({ id }) => requestManagement(system, 'DELETE', `/grants/${id}`)));
    await client.callTool({ name: 'club_overview', arguments: {} });
    expect(authProvider.tokens()?.access_token).to.be.a('string').and.not.equal(before);
    await client.close();
  });

  it('an app can exchange an assertion it fetched itself, with either client authentication', async () => {
    const { server } = await discover(connector.link);
    for (const authMethod of ['client_secret_basic', 'client_secret_post'] as const) {
      const { jwtAuthGrant } = await requestGrant('alan', server.issuer, connector.link);
      const tokens = await exchangeJwtAuthGrant({
        ...APP,
        tokenEndpoint: server.token_endpoint,
        jwtAuthGrant,
        authMethod,
      });
      expect(await isAccepted(connector.link, tokens.access_token)).to.equal(true);
    }
  });
});
