// Starts everything a process plays, from settings to listening, and stops it cleanly.
import type { Server } from 'node:http';
import type { Logger } from 'pino';
import manifest from '../package.json' with { type: 'json' };
import { closeAll, listenAll, ListenError, type ListeningHost } from './http/listen.ts';
import { openPages } from './pages/pages.ts';
import { openRateLimits } from './http/rate-limits.ts';
import { REASONS } from './grants/reasons.ts';
import { createMetrics } from './observability/metrics.ts';
import { createLogger } from './observability/logger.ts';
import type { Traces } from './observability/tracing.ts';
import { consoleUrl, openHosts, type RoleOptions } from './roles.ts';
import { ruleNotices } from './settings/entitlements.ts';
import type { Settings } from './settings/settings.ts';
import { instrumentedStore } from './store/instrumented-store.ts';
import { openStore } from './store/open.ts';
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
  /** Says that it is not ready, takes requests for `drain` more seconds, answers those under way, and closes everything. */
  stop: (drain?: number) => Promise<void>;
};

export type StartOptions = {
  logger?: Logger;
  now?: () => number;
  /** Only tests have one. */
  documentFetching?: RoleOptions['documentFetching'];
};

const epochSeconds = () => Date.now() / 1000;

/** Resolves when every listener of the process answers. Throws with nothing left open. */
export async function startGatehouse(
  settings: Settings,
  options: StartOptions = {},
): Promise<Running> {
  const { logger = createLogger(settings.logLevel), now = epochSeconds } = options;
  const { secret, previousSecret, dataDir, productName, supportContact, links, theme } = settings;
  const pages = openPages(
    { productName, links, ...(supportContact === undefined ? {} : { supportContact }) },
    theme,
  );
  for (const { setting, what, remedy } of ruleNotices(settings))
    logger.warn({ what: setting }, `${setting}: ${what}; ${remedy}`);
  const metrics = createMetrics(Object.keys(REASONS));
  const traces = await openTracesOf(settings, logger, now);
  const opened = await openStore(settings.store, {
    secret,
    previousSecret,
    dataDir,
    logger,
    now,
  });
  const tracedSystem = traces && systemOf(settings);
  const store = instrumentedStore(opened, { metrics, tracedSystem, now });
  let isStopping = false;
  const isReady = async () => {
    if (isStopping) throw new Error('stopping');
    await store.ping();
  };
  let close = async () => {};
  try {
    const playing = await openHosts({
      settings,
      version: manifest.version,
      store,
      pages,
      logger,
      metrics,
      traces,
      isReady,
      rateLimits: openRateLimits(settings.limits, store.openCounter, now, metrics),
      now,
      ...(options.documentFetching ? { documentFetching: options.documentFetching } : {}),
    });
    close = playing.close;
    const { servers, served } = await listen(playing.hosts);
    playing.check();
    const reencryption = store.startReencryption(logger);
    return {
      store,
      logger,
      urls: urlsOf(settings, served),
      async stop(drain) {
        isStopping = true;
        await closeAll(servers, { drain, endCalls: playing.endCalls });
        await close();
        await reencryption.stop();
        await store.close();
        await traces?.close();
      },
    };
  } catch (error) {
    await close();
    await store.close();
    await traces?.close();
    throw error;
  }
}

/** Loads OpenTelemetry only when traces are on, because it costs memory and startup time. */
async function openTracesOf(
  { traces }: Settings,
  logger: Logger,
  now: () => number,
): Promise<Traces | undefined> {
  if (!traces) return undefined;
  const { openTraces } = await import('./observability/opentelemetry.ts');
  return openTraces(traces, { version: manifest.version, logger, now });
}

function systemOf({ store }: Settings): 'redis' | 'sqlite' {
  return store.kind === 'sqlite' ? 'sqlite' : 'redis';
}

type Listening = { servers: Server[]; served: ListeningHost[] };

/** Several processes may share one embedded identity provider: whoever comes first serves it. */
async function listen(hosts: ListeningHost[]): Promise<Listening> {
  try {
    return { servers: await listenAll(hosts), served: hosts };
  } catch (error) {
    const taken = error instanceof ListenError ? error.host : undefined;
    if (!taken?.isShared || !(await isIssuer(taken.url))) throw error;
    const served = hosts.filter((host) => host !== taken);
    return { servers: await listenAll(served), served };
  }
}

async function isIssuer(url: string): Promise<boolean> {
  try {
    const answer = await fetch(`${url}/.well-known/openid-configuration`, {
      signal: AbortSignal.timeout(1000),
    });
    const { issuer } = (await answer.json()) as { issuer?: unknown };
    return issuer === url;
  } catch {
    return false;
  }
}

function urlsOf(settings: Settings, served: ListeningHost[]): Running['urls'] {
  const { roles, authUrl, resourceUrl, managementUrl, developmentIdp } = settings;
  const console = roles.includes('management') ? consoleUrl(settings) : undefined;
  const isIdpServed = served.some(({ url }) => url === developmentIdp?.url);
  return {
    ...(roles.includes('authorization-server') ? { auth: authUrl } : {}),
    ...(roles.includes('resource-server') ? { resource: resourceUrl } : {}),
    ...(roles.includes('management') ? { management: managementUrl } : {}),
    ...(console === undefined ? {} : { console }),
    ...(developmentIdp && isIdpServed ? { developmentIdp: developmentIdp.url } : {}),
  };
}
