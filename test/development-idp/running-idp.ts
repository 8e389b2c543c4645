import { once } from 'node:events';
import { createServer } from 'node:http';
import * as oidc from 'openid-client';
import { developmentIdp } from '../../src/development-idp/app.ts';
import type { Person } from '../../src/development-idp/engine.ts';
import { openPages } from '../../src/pages/pages.ts';
import { cookieSignatures } from '../../src/keys/cookie-signatures.ts';
import { keyRing } from '../../src/keys/key-ring.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { openStore } from '../../src/store/open.ts';

export const CLIENT = {
  id: 'gatehouse',
  secret: 'a secret that only the authorization server knows',
  redirectUri: 'http://127.0.0.1:4000/sign-in/callback',
};

export const ADA: Person = {
  id: 'ada',
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  groups: ['owners', 'staff'],
};
export const GRACE: Person = {
  id: 'grace',
  name: 'Grace Hopper',
  email: 'grace@example.com',
  groups: [],
};

/** `dataDir` holds the store, and can be reused after a restart. */
export type Place = { port: number; dataDir: string; people?: Person[]; production?: boolean };

export type RunningIdp = { url: string; stop(): Promise<void> };

export async function startIdp({
  port,
  dataDir,
  people = [ADA, GRACE],
  production = false,
}: Place): Promise<RunningIdp> {
  const url = `http://127.0.0.1:${port}`;
  const store = await openStore(
    { kind: 'sqlite', file: 'store.sqlite' },
    { secret: 'the root secret of these tests', dataDir },
  );
  const app = await developmentIdp({
    url,
    people,
    client: { ...CLIENT, redirectUris: [CLIENT.redirectUri] },
    store,
    cookieKeys: cookieSignatures(
      keyRing({ secret: 'the root secret of these tests' }, 'the cookies of these tests'),
    ),
    levelOf: ({ id }) => (id === 'ada' ? 'full' : 'operations'),
    pages: openPages({ productName: 'Gatehouse' }),
    logger: createLogger('silent'),
    isReady: () => store.ping(),
    production,
  }).catch(async (error: unknown) => {
    await store.close();
    throw error;
  });
  const server = createServer(app.callback());
  // Otherwise fetch would reuse a connection to a server that has restarted.
  server.maxRequestsPerSocket = 1;
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url,
    async stop() {
      server.closeAllConnections();
      await once(server.close(), 'close');
      await store.close();
    },
  };
}

export function discoverIdp(
  url: string,
  authentication: oidc.ClientAuth = oidc.ClientSecretBasic(CLIENT.secret),
): Promise<oidc.Configuration> {
  return oidc.discovery(new URL(url), CLIENT.id, undefined, authentication, {
    execute: [oidc.allowInsecureRequests],
  });
}

export type Request = { url: URL; checks: oidc.AuthorizationCodeGrantChecks };

/** Creates an authorization request with new state, nonce and verifier. `more` adds or replaces parameters. */
export async function signInRequest(
  idp: oidc.Configuration,
  more: Record<string, string> = {},
): Promise<Request> {
  const checks = {
    pkceCodeVerifier: oidc.randomPKCECodeVerifier(),
    expectedState: oidc.randomState(),
    expectedNonce: oidc.randomNonce(),
  };
  const url = oidc.buildAuthorizationUrl(idp, {
    redirect_uri: CLIENT.redirectUri,
    scope: 'openid profile email groups',
    state: checks.expectedState,
    nonce: checks.expectedNonce,
    code_challenge: await oidc.calculatePKCECodeChallenge(checks.pkceCodeVerifier),
    code_challenge_method: 'S256',
    ...more,
  });
  return { url, checks };
}

/** Returns the claims of the ID token, whose signature is verified. Rejects if the code is refused. */
export async function redeem(idp: oidc.Configuration, callback: URL, { checks }: Request) {
  oidc.enableNonRepudiationChecks(idp);
  const tokens = await oidc.authorizationCodeGrant(idp, callback, checks);
  const claims = tokens.claims();
  if (!claims) throw new Error('no ID token');
  return claims;
}
