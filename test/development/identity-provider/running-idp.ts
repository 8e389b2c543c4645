import { once } from 'node:events';
import { createServer } from 'node:http';
import * as oidc from 'openid-client';
import { developmentIdp } from '../../../src/development/identity-provider/app.ts';
import type { DevelopmentPerson } from '../../../src/people/account.ts';
import { identityProviderSettings } from '../../../src/sign-in/provider.ts';
import { openPages } from '../../../src/pages/pages.ts';
import { createLogger } from '../../../src/observability/logger.ts';
import type { Settings } from '../../../src/settings/settings.ts';
import { openStore } from '../../../src/store/open.ts';
import { DEVELOPMENT, load } from '../../settings/settings-file.ts';

const SECRET = 'the root secret of the identity provider tests';

export const CLIENT = {
  id: 'gatehouse',
  secret: clientSecret(),
  redirectUri: 'http://127.0.0.1:4000/sign-in/callback',
};

export const ADA: DevelopmentPerson = {
  id: 'ada',
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  groups: ['owners', 'staff'],
};
export const GRACE: DevelopmentPerson = {
  id: 'grace',
  name: 'Grace Hopper',
  email: 'grace@example.com',
  groups: [],
};

/** `dataDir` holds the store, and can be reused after a restart. */
export type Place = {
  port: number;
  dataDir: string;
  people?: DevelopmentPerson[];
  production?: boolean;
};

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
    { secret: SECRET, dataDir },
  );
  const services = {
    store,
    pages: openPages({ productName: 'Gatehouse' }),
    logger: createLogger('silent'),
    isReady: async () => ({}),
    now: () => Math.floor(Date.now() / 1000),
  };
  const settings = { ...settingsOf(url, people), production };
  const app = await developmentIdp(settings, services, [CLIENT.redirectUri]).catch(
    async (error: unknown) => {
      await store.close();
      throw error;
    },
  );
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

function settingsOf(url: string, people: DevelopmentPerson[]): Settings {
  return load(
    {
      ...DEVELOPMENT,
      developmentIdp: { url, people },
      entitlements: [
        { match: { subject: 'ada' }, level: 'full' },
        { match: { anyone: true }, level: 'operations' },
      ],
    },
    { GATEHOUSE_SECRET: SECRET },
  );
}

/** The secret that the settings derive from the root secret. */
function clientSecret(): string {
  const [provider] = identityProviderSettings(load(DEVELOPMENT, { GATEHOUSE_SECRET: SECRET }));
  return String(provider?.clientSecret);
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
