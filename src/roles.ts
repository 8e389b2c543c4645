// Which Koa app answers on which address, for the roles this process plays.
import type { Logger } from 'pino';
import { accountLifetime, developmentAccount } from './accounts/account.ts';
import { entitledLevel } from './accounts/entitlement.ts';
import { authorizationServer } from './authorization-server/app.ts';
import type { DocumentFetching } from './authorization-server/engine/client-metadata-documents.ts';
import { checkClients } from './identity-providers/client-check.ts';
import { CALLBACK_PATH } from './authorization-server/interactions/interaction.ts';
import {
  identityProviderSettings,
  openIdentityProvider,
  openIdentityProviders,
  providerCallback,
} from './identity-providers/provider.ts';
import { ENDPOINTS } from './authorization-server/metadata.ts';
import { developmentIdp } from './development-idp/app.ts';
import { grantLifetimes } from './grants/grant-lifetime.ts';
import type { ListeningHost } from './http/listen.ts';
import type { Pages } from './pages/pages.ts';
import type { RateLimits } from './http/rate-limits.ts';
import { limitFailedAttempts } from './http/failed-attempts.ts';
import { cookieSignatures } from './keys/cookie-signatures.ts';
import { keyRing } from './keys/key-ring.ts';
import { persistentKey } from './keys/persistent-key.ts';
import { openRemoteKeys, type RemoteKeys } from './keys/remote-keys.ts';
import { openSigningKeyRing, signingKey } from './keys/signing-keys.ts';
import { managementApp } from './management/app.ts';
import { CALLBACK_PATH as CONSOLE_CALLBACK_PATH } from './management/console/sign-in.ts';
import { CONSOLE_PATH, type ConsoleSettings } from './management/console/context.ts';
import { resourceServer } from './resource-server/app.ts';
import type { RequestKind } from './resource-server/active-requests.ts';
import { metricsApp } from './http/metrics-host.ts';
import type { Metrics } from './observability/metrics.ts';
import type { Traces } from './observability/tracing.ts';
import type { Settings } from './settings/settings.ts';
import type { Store } from './store/store.ts';

export type RoleOptions = {
  settings: Settings;
  version: string;
  store: Store;
  pages: Pages;
  logger: Logger;
  metrics: Metrics;
  traces: Traces | undefined;
  isReady: () => Promise<void>;
  rateLimits: RateLimits;
  now: () => number;
  documentFetching?: DocumentFetching;
};

export type Hosts = {
  hosts: ListeningHost[];
  /** Ends the open calls of this kind with an answer. */
  endCalls: (kind: RequestKind) => void;
  /** Looks at what this process depends on, in the background, and says in the log what is wrong. */
  check: () => void;
  close: () => Promise<void>;
};

export async function openHosts(options: RoleOptions): Promise<Hosts> {
  const { roles, authUrl } = options.settings;
  const hosts: ListeningHost[] = [];
  const closing: (() => void | Promise<void>)[] = [];
  const checks: (() => Promise<void>)[] = [];
  let endCalls: Hosts['endCalls'] = () => undefined;
  const signingKeys = needsSigningKeys(options.settings)
    ? await openSigningKeyRing(options.store, options.now, options.logger)
    : undefined;
  if (signingKeys) closing.push(signingKeys.close);
  if (roles.includes('authorization-server') && signingKeys) {
    const server = await authorizationServer({ ...options, signingKeys });
    closing.push(server.close);
    hosts.push(host(options, 'auth', server.app, () => true));
    if (options.settings.developmentIdp) hosts.push(await developmentIdpHost(options));
  }
  if (roles.includes('resource-server')) {
    let keys: RemoteKeys | undefined = signingKeys;
    if (!keys) {
      keys = await openRemoteKeys(authUrl + ENDPOINTS.jwks, options.store, options.logger);
      closing.push(keys.close);
    }
    const { verificationKeys } = keys;
    const signing = signingKeys
      ? { signingKey: () => signingKey(signingKeys.all(), options.now()) }
      : {};
    const server = await resourceServer({ ...options, ...signing, verificationKeys });
    closing.push(server.close);
    checks.push(server.check);
    endCalls = server.end;
    // Before the authorization server: on one origin it has a few paths and the authorization server the rest.
    hosts.unshift(host(options, 'resource', server.app, isResourcePath));
  }
  if (roles.includes('management')) hosts.push(await managementHost(options));
  if (options.settings.listen.metrics)
    hosts.push(metricsHost(options, options.settings.listen.metrics));
  let isStopped = false;
  checks.push(() => checkSignIns(options, () => isStopped));
  const check = () => {
    for (const run of checks)
      run().catch((error: unknown) =>
        options.logger.warn({ err: error }, 'a check at the start failed'),
      );
  };
  const close = async () => {
    isStopped = true;
    for (const step of closing) await step();
  };
  return { hosts, endCalls, check, close };
}

/** Only in processes where people sign in. It asks the providers itself, so that no sign-in relies on what it found. */
async function checkSignIns(
  { settings, logger }: RoleOptions,
  isStopped: () => boolean,
): Promise<void> {
  const callbackUrl = callbackUrlOf(settings);
  if (callbackUrl === undefined) return;
  await checkClients({
    settings: identityProviderSettings(settings),
    open: (provider) => openIdentityProvider(provider, providerCallback(provider, callbackUrl)),
    logger,
    isStopped,
  });
}

function callbackUrlOf(settings: Settings): string | undefined {
  const { roles, authUrl, managementUrl } = settings;
  if (roles.includes('authorization-server')) return authUrl + CALLBACK_PATH;
  const isConsoleOn = roles.includes('management') && consoleUrl(settings) !== undefined;
  return isConsoleOn ? managementUrl + CONSOLE_CALLBACK_PATH : undefined;
}

/** A resource server alone signs nothing, unless it tells an upstream who calls. */
function needsSigningKeys({ roles, resourceServer: { upstream } }: Settings): boolean {
  return (
    roles.includes('authorization-server') ||
    (roles.includes('resource-server') && upstream !== undefined)
  );
}

function isResourcePath(path: string): boolean {
  return /^\/(connect|mcp)(\/|$)|^\/\.well-known\/oauth-protected-resource(\/|$)/.test(path);
}

const SETTINGS = {
  auth: ['authUrl', 'GATEHOUSE_AUTH_URL or GATEHOUSE_AUTH_LISTEN'],
  resource: ['resourceUrl', 'GATEHOUSE_RESOURCE_URL or GATEHOUSE_RESOURCE_LISTEN'],
  management: ['managementUrl', 'GATEHOUSE_MANAGEMENT_URL or GATEHOUSE_MANAGEMENT_LISTEN'],
} as const;

function host(
  { settings }: RoleOptions,
  name: keyof typeof SETTINGS,
  app: ListeningHost['app'],
  owns: ListeningHost['owns'],
): ListeningHost {
  const [url, setting] = SETTINGS[name];
  return { app, owns, setting, url: settings[url], listen: settings.listen[name] };
}

async function developmentIdpHost(options: RoleOptions): Promise<ListeningHost> {
  const { settings } = options;
  const { developmentIdp: idp, listen, authUrl, entitlements, production } = settings;
  if (!idp || !listen.developmentIdp)
    throw new Error('there is no embedded identity provider in the settings');
  const [provider] = identityProviderSettings(settings);
  const app = await developmentIdp({
    ...options,
    url: idp.url,
    people: idp.people,
    client: {
      id: String(provider?.clientId),
      secret: String(provider?.clientSecret),
      redirectUris: [authUrl + CALLBACK_PATH, settings.managementUrl + CONSOLE_CALLBACK_PATH],
    },
    cookieKeys: cookieSignatures(keyRing(settings, 'development identity provider cookies')),
    levelOf: (person) =>
      entitledLevel(developmentAccount(idp.url, person), entitlements, 'sign-in') ?? 'nothing',
    production,
  });
  const setting = 'GATEHOUSE_DEVELOPMENT_IDP_URL or GATEHOUSE_DEVELOPMENT_IDP_LISTEN';
  return {
    app,
    setting,
    url: idp.url,
    listen: listen.developmentIdp,
    owns: () => true,
    isShared: true,
  };
}

async function managementHost(options: RoleOptions): Promise<ListeningHost> {
  const { settings } = options;
  if (settings.managementKey === undefined) throw new Error('the management role needs its key');
  const app = managementApp({
    ...options,
    url: settings.managementUrl,
    authUrl: settings.authUrl,
    resourceUrl: settings.resourceUrl,
    accessTokenLifetime: settings.lifetimes.accessToken,
    lifetimes: grantLifetimes(settings.lifetimes),
    accountLifetime: accountLifetime(settings),
    grantLifetime: settings.lifetimes.refreshTokenAbsolute,
    entitledLevel: (account, via) => entitledLevel(account, settings.entitlements, via),
    clients: settings.clients,
    key: settings.managementKey,
    guardKey: limitFailedAttempts(options.rateLimits.wrongSecrets),
    proxies: settings.proxies,
    ...(await consoleOf(options)),
  });
  return host(options, 'management', app, () => true);
}

function metricsHost(options: RoleOptions, listen: ListeningHost['listen']): ListeningHost {
  const setting = 'GATEHOUSE_METRICS_LISTEN';
  return { app: metricsApp(options), setting, url: 'metrics', listen, owns: () => true };
}

/** Undefined when it is off, because nobody is an administrator. */
export function consoleUrl({ management, managementUrl }: Settings): string | undefined {
  return management.administrators.length > 0 ? managementUrl + CONSOLE_PATH : undefined;
}

/** People sign in to the console where they sign in for everything else. */
async function consoleOf(options: RoleOptions): Promise<{ console?: ConsoleSettings }> {
  const { settings, store, pages, rateLimits } = options;
  const { administrators } = settings.management;
  if (consoleUrl(settings) === undefined) return {};
  const callbackUrl = settings.managementUrl + CONSOLE_CALLBACK_PATH;
  const identityProviders = openIdentityProviders(settings, callbackUrl);
  const accountKey = await persistentKey(store, settings.secret, 'account-ids');
  const signIn = { identityProviders, accountKey };
  return { console: { pages, signIn, administrators, rateLimit: rateLimits.signIns } };
}
