// The row of openid-client, with an application that speaks MCP itself.
import { expect } from 'chai';
import * as library from 'openid-client';
import { createConnector } from '../support/management-api.ts';
import { type Browser, openBrowser, type AuthorizeOptions } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import type { System } from '../support/system.ts';
import { CONTACT, OVERVIEW, toolCall } from './messages.ts';
import { OWN_DOCUMENT, type TestSystems } from './systems.ts';
import type { Row } from './table.ts';

const REDIRECT_URI = 'http://127.0.0.1:7272/callback';
const PUBLIC_APPLICATION = {
  notOffered: 'the application of this row is public and has a browser',
};
const METADATA = {
  client_name: 'openid-client application',
  redirect_uris: [REDIRECT_URI],
  token_endpoint_auth_method: 'none',
};

/** Metadata by RFC 8414 rather than OpenID Connect, and plain http on loopback. */
const OPTIONS: library.DiscoveryRequestOptions = {
  algorithm: 'oauth2',
  execute: [library.allowInsecureRequests],
};

type Tokens = { access_token: string; refresh_token?: string };
type Connection = {
  browser: Browser;
  link: string;
  configuration: library.Configuration;
  asked?: { callback: URL; verifier: string; state: string };
  tokens?: Tokens;
};

export function openidClientRow(systems: () => TestSystems): Row {
  const system = () => systems().system;
  const connections: Connection[] = [];
  const add = async (configuration: library.Configuration) => {
    const connection = await openConnection(system(), configuration);
    connections.push(connection);
    return connection;
  };
  const onBoth = (step: (connection: Connection) => Promise<void>) => ({
    prove: async () => {
      expect(connections).to.have.lengthOf(2);
      for (const connection of connections) await step(connection);
    },
  });
  return {
    client: 'openid-client',
    kind: 'program',
    steps: {
      discover: { prove: () => discover(system()) },
      register: { prove: async () => void (await add(await register(system()))) },
      document: {
        prove: async () => {
          const connection = await add(await configurationOf(system()));
          const { url } = await authorizationOf(connection);
          const page = await openBrowser(system().origins).openConsent(url);
          expect(page.html).to.include(new URL(OWN_DOCUMENT).host);
        },
      },
      authorize: onBoth((connection) => authorize(connection, {}, { level: 'operations' })),
      token: onBoth(redeem),
      call: onBoth(expectServed),
      refresh: {
        prove: async () => {
          advanceClock(3601);
          await onBoth(refresh).prove();
        },
      },
      'step-up': onBoth(stepUp),
      revoke: onBoth(revoke),
      key: PUBLIC_APPLICATION,
      machine: PUBLIC_APPLICATION,
      device: PUBLIC_APPLICATION,
    },
  };
}

function configurationOf({ auth }: System): Promise<library.Configuration> {
  return library.discovery(new URL(auth), OWN_DOCUMENT, undefined, library.None(), OPTIONS);
}

function register({ auth }: System): Promise<library.Configuration> {
  return library.dynamicClientRegistration(new URL(auth), METADATA, library.None(), OPTIONS);
}

/** Reads the metadata of the authorization server; the application passes on the link's challenge. */
async function discover(system: System): Promise<void> {
  const configuration = await configurationOf(system);
  expect(configuration.serverMetadata()).to.include({ issuer: system.auth });
  const { link } = await createConnector(system);
  const challenge = await challengeOf(configuration, link, 'nothing', OVERVIEW);
  const response = await fetch(challenge.parameters.resource_metadata ?? '');
  expect(await response.json()).to.deep.include({
    resource: link,
    authorization_servers: [system.auth],
  });
}

async function openConnection(
  system: System,
  configuration: library.Configuration,
): Promise<Connection> {
  const { link } = await createConnector(system, { level: 'admin' });
  return { configuration, link, browser: openBrowser(system.origins) };
}

async function authorizationOf({ configuration, link }: Connection, more = {}) {
  const verifier = library.randomPKCECodeVerifier();
  const state = library.randomState();
  const url = library.buildAuthorizationUrl(configuration, {
    redirect_uri: REDIRECT_URI,
    code_challenge: await library.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    resource: link,
    state,
    ...more,
  });
  return { url, verifier, state };
}

async function authorize(
  connection: Connection,
  more: Record<string, string>,
  options: AuthorizeOptions,
): Promise<void> {
  const { url, ...secrets } = await authorizationOf(connection, more);
  connection.asked = { callback: await connection.browser.authorize(url, options), ...secrets };
  expect(connection.asked.callback.searchParams.get('code')).to.be.a('string');
}

async function redeem(connection: Connection): Promise<void> {
  const { configuration, asked, link } = connection;
  if (!asked) throw new Error('nobody was asked');
  connection.tokens = await library.authorizationCodeGrant(
    configuration,
    asked.callback,
    { pkceCodeVerifier: asked.verifier, expectedState: asked.state },
    { resource: link },
  );
}

async function refresh(connection: Connection): Promise<void> {
  const { configuration, link } = connection;
  const { access_token, refresh_token = '' } = tokensOf(connection);
  const challenge = await challengeOf(configuration, link, access_token, OVERVIEW);
  expect(challenge.parameters.error).to.equal('invalid_token');
  connection.tokens = await library.refreshTokenGrant(configuration, refresh_token);
  await expectServed(connection);
}

async function stepUp(connection: Connection): Promise<void> {
  const { configuration, link } = connection;
  const { access_token } = tokensOf(connection);
  const { parameters } = await challengeOf(configuration, link, access_token, CONTACT);
  expect(parameters.error).to.equal('insufficient_scope');
  await authorize(connection, { scope: parameters.scope ?? '' }, {});
  await redeem(connection);
  expect(await call(connection, CONTACT)).to.include('email');
}

async function revoke(connection: Connection): Promise<void> {
  const { configuration, link } = connection;
  const { access_token, refresh_token = '' } = tokensOf(connection);
  await library.tokenRevocation(configuration, refresh_token);
  const challenge = await challengeOf(configuration, link, access_token, OVERVIEW);
  expect(challenge.parameters.error).to.equal('invalid_token');
  const refused: unknown = await library
    .refreshTokenGrant(configuration, refresh_token)
    .catch((error: unknown) => error);
  expect(refused).to.have.property('error', 'invalid_grant');
  await authorize(connection, {}, {});
  await redeem(connection);
  await expectServed(connection);
}

async function expectServed(connection: Connection): Promise<void> {
  expect(await call(connection, OVERVIEW)).to.include('members');
}

async function call(connection: Connection, tool: object): Promise<string> {
  const { configuration, link } = connection;
  const { access_token } = tokensOf(connection);
  const response = await fetchTool(configuration, link, access_token, tool);
  expect(response.status).to.equal(200);
  return response.text();
}

/** The parsed challenges that openid-client throws when a call is refused. */
async function challengeOf(
  configuration: library.Configuration,
  link: string,
  token: string,
  tool: object,
) {
  const refused: unknown = await fetchTool(configuration, link, token, tool).catch(
    (error: unknown) => error,
  );
  if (!(refused instanceof library.WWWAuthenticateChallengeError)) throw refused;
  const [challenge] = refused.cause;
  if (!challenge) throw new Error('a refusal without a challenge');
  return challenge;
}

function fetchTool(
  configuration: library.Configuration,
  link: string,
  token: string,
  tool: object,
): Promise<Response> {
  const { headers, body } = toolCall(tool);
  const url = new URL(link);
  return library.fetchProtectedResource(
    configuration,
    token,
    url,
    'POST',
    body,
    new Headers(headers),
  );
}

function tokensOf({ tokens }: Connection): Tokens {
  if (!tokens) throw new Error('it has no tokens');
  return tokens;
}
