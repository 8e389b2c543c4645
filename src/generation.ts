// The hosts of one version of the settings. A reload opens new ones, passes new requests to them, and lets the old ones finish.
import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Logger } from 'pino';
import { CALLBACK_PATH } from './consent/callback-path.ts';
import type { RequestKind } from './gateway/active-requests.ts';
import type { ResourceServer } from './gateway/app.ts';
import type { ListeningHost } from './http/listen.ts';
import { metricsApp } from './http/metrics-host.ts';
import { openRemoteKeys } from './keys/remote-keys.ts';
import { CONSOLE_CALLBACK_PATH, consoleUrl } from './management/console/address.ts';
import type { DocumentFetching } from './oauth/engine/client-metadata-documents.ts';
import { ENDPOINTS } from './oauth/metadata.ts';
import { createResources, type Resources } from './resources.ts';
import { openServices, type ProcessServices, type Services } from './services.ts';
import { appCatalog } from './settings/apps.ts';
import type { Settings } from './settings/settings.ts';

/**
 * Loads the code of the process's hosts, and of no others, before the store is opened: while code is compiled, replies of the store would not be
 * read in time.
 */
export async function loadHosts({ roles, developmentIdp, upstreams }: Settings): Promise<void> {
  if (roles.includes('resource-server')) {
    await import('./gateway/app.ts');
    if (upstreams.length > 0) await import('./gateway/upstream/proxies.ts');
  }
  if (roles.includes('authorization-server')) {
    await import('./oauth/app.ts');
    if (developmentIdp) await import('./development/identity-provider/app.ts');
  }
  if (roles.includes('management')) await import('./management/app.ts');
}

/** Examines a dependency and logs what is wrong with it, unless the signal is aborted. */
type Check = (stopping: AbortSignal) => Promise<void>;

/** The hosts of one version of the settings. */
export type Generation = {
  settings: Settings;
  services: Services;
  hosts: ListeningHost[];
  /** In the background, so that a dependency that does not answer delays nothing. */
  runChecks: (stopping: AbortSignal) => void;
  /** Ends the active requests of a kind with a response. */
  endRequests: (kind: RequestKind) => void;
  /** The rights of requests in progress are those of these settings from now on. */
  follow: (inForce: Settings) => void;
  /**
   * Call when new requests go to the hosts of the next settings. Requests in progress finish, and streams on which clients only listen end within
   * ten minutes. Resolves when nothing is left, and everything was closed.
   */
  retire: () => Promise<void>;
  /** Ends these streams within seconds. */
  hurry: () => void;
  close: () => Promise<void>;
};

/** Streams end at different times, so that not all clients come back at once. */
const IDLE_STREAMS_MS = 600_000;
const HURRY_MS = 5000;

/** Leaves nothing open if it throws. */
export async function openGeneration(
  settings: Settings,
  processServices: ProcessServices,
  documentFetching: DocumentFetching | undefined,
): Promise<Generation> {
  const resources = createResources();
  try {
    return await openHosts(settings, processServices, resources, documentFetching);
  } catch (error) {
    await resources.close();
    throw error;
  }
}

/** On a shared origin, the first host that owns a path serves it, so the authorization server comes after the resource server. */
async function openHosts(
  settings: Settings,
  processServices: ProcessServices,
  resources: Resources,
  documentFetching: DocumentFetching | undefined,
): Promise<Generation> {
  await loadHosts(settings);
  const services = await openServices(settings, processServices, resources);
  const { roles, listen } = settings;
  const hosts: ListeningHost[] = [];
  const checks: Check[] = [(stopping) => checkIdentityProviders(settings, services, stopping)];
  let resourceServer: ResourceServer | undefined;
  if (roles.includes('resource-server')) {
    resourceServer = await openResourceServer(settings, services, resources);
    hosts.push(hostAt(settings, 'resource', resourceServer.app, isResourcePath));
    checks.push(resourceServer.check);
  }
  if (roles.includes('authorization-server')) {
    const { authorizationServer } = await import('./oauth/app.ts');
    const server = await authorizationServer(settings, services, documentFetching);
    resources.defer(server.close);
    hosts.push(hostAt(settings, 'auth', server.app));
    checks.push(readAppCatalog);
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
  const requests = countRequests();
  return {
    settings,
    services,
    hosts: hosts.map((host) => ({ ...host, onRequest: requests.begin })),
    runChecks: (stopping) => runChecks(checks, services.logger, stopping),
    endRequests: (kind) => resourceServer?.end(kind),
    follow: (inForce) => resourceServer?.follow(inForce),
    async retire() {
      resourceServer?.renewStreams(IDLE_STREAMS_MS);
      await requests.ended();
      await resources.close();
    },
    hurry: () => resourceServer?.renewStreams(HURRY_MS),
    close: () => resources.close(),
  };
}

/** Counts the open responses. */
function countRequests() {
  let open = 0;
  let onEnded: (() => void) | undefined;
  const end = () => {
    open -= 1;
    if (open === 0) onEnded?.();
  };
  return {
    begin(response: ServerResponse): void {
      open += 1;
      response.once('close', end);
    },
    /** Resolves when none is open. */
    ended: () =>
      new Promise<void>((resolve) => {
        onEnded = resolve;
        if (open === 0) resolve();
      }),
  };
}

async function openResourceServer(
  settings: Settings,
  services: Services,
  resources: Resources,
): Promise<ResourceServer> {
  const { keep, logger, keys } = services;
  const { verificationKeys } =
    keys.signing ??
    (await keep('published keys', async (kept) => {
      const opened = await openRemoteKeys(settings.authUrl + ENDPOINTS.jwks, kept.store, logger);
      kept.resources.defer(opened.close);
      return opened;
    }));
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

// Checks

/** Runs in the background, so that a dependency that does not answer delays nothing. */
function runChecks(checks: readonly Check[], logger: Logger, stopping: AbortSignal): void {
  for (const check of checks)
    check(stopping).catch((error: unknown) =>
      logger.warn({ err: error }, 'a startup check failed'),
    );
}

/** So that no client waits for it. Parsing takes too long for the start. */
async function readAppCatalog(): Promise<void> {
  await nextTurn();
  appCatalog();
}

/** Runs in processes where people sign in. Opens its own clients, so that no sign-in depends on the results. */
async function checkIdentityProviders(
  settings: Settings,
  { logger }: Services,
  stopping: AbortSignal,
): Promise<void> {
  const callbackUrl = callbackUrlOf(settings);
  if (callbackUrl === undefined) return;
  const { checkClients } = await import('./sign-in/startup-check.ts');
  await checkClients(settings.identityProviders, { callbackUrl, logger, stopping });
}

function callbackUrlOf(settings: Settings): string | undefined {
  const { roles, authUrl, managementUrl } = settings;
  if (roles.includes('authorization-server')) return authUrl + CALLBACK_PATH;
  const hasConsole = roles.includes('management') && consoleUrl(settings) !== undefined;
  return hasConsole ? managementUrl + CONSOLE_CALLBACK_PATH : undefined;
}
