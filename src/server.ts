import type { Server } from 'node:http';
import type { Logger } from 'pino';
import type { DocumentFetching } from './oauth/engine/client-metadata-documents.ts';
import { CALLBACK_PATH } from './consent/callback-path.ts';
import { ENDPOINTS } from './oauth/metadata.ts';
import {
  closeAll,
  HTTP_TIMEOUTS,
  type HttpTimeouts,
  listenAll,
  ListenError,
  type ListeningHost,
} from './http/listen.ts';
import { metricsApp } from './http/metrics-host.ts';
import { openRemoteKeys } from './keys/remote-keys.ts';
import { CONSOLE_CALLBACK_PATH, consoleUrl } from './management/console/address.ts';
import { createLogger } from './observability/logger.ts';
import type { RequestKind } from './gateway/active-requests.ts';
import type { ResourceServer } from './gateway/app.ts';
import { createResources, openServices, type Resources, type Services } from './services.ts';
import { ruleNotices } from './settings/entitlements.ts';
import type { Settings } from './settings/settings.ts';
import type { Store } from './store/store.ts';

export type Running = {
  store: Store;
  logger: Logger;
  /** The public addresses of the hosts that this process serves. */
  urls: {
    auth?: string;
    resource?: string;
    management?: string;
    console?: string;
    developmentIdp?: string;
  };
  /** Fails readiness, accepts requests for `drain` more seconds, completes the active ones, and closes everything. */
  stop: (drain?: number) => Promise<void>;
};

/** Only tests set `now`, `documentFetching` and `timeouts`. */
export type StartOptions = {
  logger?: Logger;
  now?: () => number;
  documentFetching?: DocumentFetching;
  timeouts?: Partial<HttpTimeouts>;
};

const epochSeconds = () => Date.now() / 1000;

/** Starts the hosts of the process's roles. Resolves when all listeners accept requests. Leaves nothing open if it throws. */
export async function startGatehouse(
  settings: Settings,
  options: StartOptions = {},
): Promise<Running> {
  const { logger = createLogger(settings.logLevel), now = epochSeconds } = options;
  const timeouts = { ...HTTP_TIMEOUTS, ...options.timeouts };
  const stopping = new AbortController();
  const resources = createResources();
  logNotices(settings, logger);
  await loadHosts(settings);
  try {
    const services = await openServices(
      settings,
      { logger, now, stopping: stopping.signal },
      resources,
    );
    const { hosts, checks, endRequests } = await openHosts(
      settings,
      services,
      resources,
      options.documentFetching,
    );
    const { servers, served } = await listen(hosts, timeouts);
    runChecks(checks, logger, stopping.signal);
    const reencryption = services.store.startReencryption(logger);
    resources.defer(reencryption.stop);
    if (settings.roles.includes('management')) {
      const { keepAccountIndex } = await import('./people/accounts.ts');
      resources.defer(keepAccountIndex(services.store).stop);
    }
    return {
      store: services.store,
      logger,
      urls: urlsOf(settings, served),
      async stop(drain) {
        stopping.abort();
        await closeAll(servers, { drain, endCalls: endRequests, timeouts });
        await resources.close();
      },
    };
  } catch (error) {
    await resources.close();
    throw error;
  }
}

function logNotices(settings: Settings, logger: Logger): void {
  for (const { setting, what, remedy } of ruleNotices(settings))
    logger.warn({ what: setting }, `${setting}: ${what}; ${remedy}`);
}

// Hosts

/** Examines a dependency and logs what is wrong with it, unless the signal is aborted. */
type Check = (stopping: AbortSignal) => Promise<void>;

type Hosts = {
  hosts: ListeningHost[];
  checks: Check[];
  /** Ends the active requests of a kind with a response. */
  endRequests: (kind: RequestKind) => void;
};

/**
 * Loads the code of the process's hosts, and of no others, before the store is opened: while code is compiled, replies of the store would not be
 * read in time.
 */
async function loadHosts({ roles, developmentIdp, upstreams }: Settings): Promise<void> {
  if (roles.includes('resource-server')) {
    await import('./gateway/app.ts');
    if (upstreams.length > 0) {
      await import('./gateway/upstream/proxy.ts');
      await import('./gateway/upstream/tool-discovery.ts');
    }
  }
  if (roles.includes('authorization-server')) {
    await import('./oauth/app.ts');
    if (developmentIdp) await import('./development/identity-provider/app.ts');
  }
  if (roles.includes('management')) await import('./management/app.ts');
}

/** On a shared origin, the first host that owns a path serves it, so the authorization server comes after the resource server. */
async function openHosts(
  settings: Settings,
  services: Services,
  resources: Resources,
  documentFetching: DocumentFetching | undefined,
): Promise<Hosts> {
  const { roles, listen } = settings;
  const hosts: ListeningHost[] = [];
  const checks: Check[] = [(stopping) => checkIdentityProviders(settings, services, stopping)];
  let endRequests: Hosts['endRequests'] = () => undefined;
  if (roles.includes('resource-server')) {
    const server = await openResourceServer(settings, services, resources);
    hosts.push(hostAt(settings, 'resource', server.app, isResourcePath));
    checks.push(server.check);
    endRequests = server.end;
  }
  if (roles.includes('authorization-server')) {
    const { authorizationServer } = await import('./oauth/app.ts');
    const server = await authorizationServer(settings, services, documentFetching);
    resources.defer(server.close);
    hosts.push(hostAt(settings, 'auth', server.app));
    if (settings.developmentIdp) hosts.push(await developmentIdpHost(settings, services));
  }
  if (roles.includes('management')) {
    const { managementApp } = await import('./management/app.ts');
    hosts.push(hostAt(settings, 'management', managementApp(settings, services)));
  }
  if (listen.metrics)
    hosts.push({
      app: metricsApp(services),
      url: 'metrics',
      listen: listen.metrics,
      setting: 'GATEHOUSE_METRICS_LISTEN',
      owns: () => true,
    });
  return { hosts, checks, endRequests };
}

async function openResourceServer(
  settings: Settings,
  services: Services,
  resources: Resources,
): Promise<ResourceServer> {
  const { store, logger, keys } = services;
  const { verificationKeys, close } =
    keys.signing ?? (await openRemoteKeys(settings.authUrl + ENDPOINTS.jwks, store, logger));
  if (!keys.signing) resources.defer(close);
  const { resourceServer } = await import('./gateway/app.ts');
  const server = await resourceServer(settings, services, verificationKeys);
  resources.defer(server.close);
  return server;
}

function isResourcePath(path: string): boolean {
  return /^\/(connect|mcp)(\/|$)|^\/\.well-known\/oauth-protected-resource(\/|$)/.test(path);
}

async function developmentIdpHost(settings: Settings, services: Services): Promise<ListeningHost> {
  const { developmentIdp: idp, listen, authUrl, managementUrl } = settings;
  if (!idp || !listen.developmentIdp)
    throw new Error('the settings have no embedded identity provider');
  const { developmentIdp } = await import('./development/identity-provider/app.ts');
  const app = await developmentIdp(settings, services, [
    authUrl + CALLBACK_PATH,
    managementUrl + CONSOLE_CALLBACK_PATH,
  ]);
  return {
    app,
    url: idp.url,
    listen: listen.developmentIdp,
    setting: 'GATEHOUSE_DEVELOPMENT_IDP_URL or GATEHOUSE_DEVELOPMENT_IDP_LISTEN',
    owns: () => true,
    isShared: true,
  };
}

const URL_SETTINGS = {
  auth: ['authUrl', 'GATEHOUSE_AUTH_URL or GATEHOUSE_AUTH_LISTEN'],
  resource: ['resourceUrl', 'GATEHOUSE_RESOURCE_URL or GATEHOUSE_RESOURCE_LISTEN'],
  management: ['managementUrl', 'GATEHOUSE_MANAGEMENT_URL or GATEHOUSE_MANAGEMENT_LISTEN'],
} as const;

function hostAt(
  settings: Settings,
  name: keyof typeof URL_SETTINGS,
  app: ListeningHost['app'],
  owns: ListeningHost['owns'] = () => true,
): ListeningHost {
  const [url, setting] = URL_SETTINGS[name];
  return { app, url: settings[url], listen: settings.listen[name], setting, owns };
}

// Listening

type Listening = { servers: Server[]; served: ListeningHost[] };

/** Several processes may share one embedded identity provider; the first to start serves it. */
async function listen(hosts: ListeningHost[], timeouts: HttpTimeouts): Promise<Listening> {
  try {
    return { servers: await listenAll(hosts, timeouts), served: hosts };
  } catch (error) {
    const taken = error instanceof ListenError ? error.host : undefined;
    if (!taken?.isShared || !(await isIssuer(taken.url))) throw error;
    const served = hosts.filter((host) => host !== taken);
    return { servers: await listenAll(served, timeouts), served };
  }
}

const ISSUER_TIMEOUT_MS = 1000;

async function isIssuer(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/.well-known/openid-configuration`, {
      signal: AbortSignal.timeout(ISSUER_TIMEOUT_MS),
    });
    const { issuer } = (await response.json()) as { issuer?: unknown };
    return issuer === url;
  } catch {
    return false;
  }
}

function urlsOf(settings: Settings, served: ListeningHost[]): Running['urls'] {
  const { roles, authUrl, resourceUrl, managementUrl, developmentIdp: idp } = settings;
  const console = roles.includes('management') ? consoleUrl(settings) : undefined;
  const isIdpServed = served.some(({ url }) => url === idp?.url);
  return {
    ...(roles.includes('authorization-server') ? { auth: authUrl } : {}),
    ...(roles.includes('resource-server') ? { resource: resourceUrl } : {}),
    ...(roles.includes('management') ? { management: managementUrl } : {}),
    ...(console === undefined ? {} : { console }),
    ...(idp && isIdpServed ? { developmentIdp: idp.url } : {}),
  };
}

// Checks

/** Runs in the background, so that a dependency that does not answer delays nothing. */
function runChecks(checks: readonly Check[], logger: Logger, stopping: AbortSignal): void {
  for (const check of checks)
    check(stopping).catch((error: unknown) =>
      logger.warn({ err: error }, 'a startup check failed'),
    );
}

/** Runs in processes where people sign in. Opens its own clients, so that no sign-in depends on the results. */
async function checkIdentityProviders(
  settings: Settings,
  { logger }: Services,
  stopping: AbortSignal,
): Promise<void> {
  const callbackUrl = callbackUrlOf(settings);
  if (callbackUrl === undefined) return;
  const { checkClients } = await import('./sign-in/client-check.ts');
  const { identityProviderSettings, openIdentityProvider, providerCallback } =
    await import('./sign-in/provider.ts');
  await checkClients({
    settings: identityProviderSettings(settings),
    open: (provider) => openIdentityProvider(provider, providerCallback(provider, callbackUrl)),
    logger,
    isStopped: () => stopping.aborted,
  });
}

function callbackUrlOf(settings: Settings): string | undefined {
  const { roles, authUrl, managementUrl } = settings;
  if (roles.includes('authorization-server')) return authUrl + CALLBACK_PATH;
  const hasConsole = roles.includes('management') && consoleUrl(settings) !== undefined;
  return hasConsole ? managementUrl + CONSOLE_CALLBACK_PATH : undefined;
}
