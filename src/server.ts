import type { Server } from 'node:http';
import type { Logger } from 'pino';
import { noteAuditSettings } from './audit/audit-settings.ts';
import { keepChain } from './audit/chain/keep-chain.ts';
import { followDelivery } from './audit/delivery/follow-settings.ts';
import type { RequestKind } from './gateway/active-requests.ts';
import { type Generation, loadHosts, openGeneration } from './generation.ts';
import {
  closeAll,
  leaveAll,
  HTTP_TIMEOUTS,
  type HttpTimeouts,
  listenAll,
  ListenError,
  type ListeningHost,
  replaceHosts,
} from './http/listen.ts';
import { persistentKey } from './keys/persistent-key.ts';
import { consoleUrl } from './management/console/address.ts';
import type { DocumentFetching } from './oauth/engine/client-metadata-documents.ts';
import { createLogger } from './observability/logger.ts';
import type { GatherMetrics } from './observability/metrics.ts';
import { openReloads, type ReloadOptions, type ReloadReport } from './reload/reloads.ts';
import { reloadSettings } from './reload/reload-settings.ts';
import { createResources } from './resources.ts';
import { openProcessServices, type ProcessServices, type Services } from './services.ts';
import { findMissingGroups, missingGroupsText } from './people/arrived-groups.ts';
import { ruleNotices } from './settings/entitlements.ts';
import type { Settings } from './settings/settings.ts';
import { type ServedUrls, startupMessage } from './startup-message.ts';
import { unfinishedSince } from './restore/unfinished.ts';
import { type Store, StoreNotOpened } from './store/store.ts';

export type Running = {
  store: Store;
  logger: Logger;
  urls: ServedUrls;
  /** What the process prints when it runs. */
  startupMessage: () => Promise<string>;
  /** Those in force. */
  settings: () => Settings;
  /** Reads the settings and secrets again, in all processes of the system. Throws ReloadRefused. */
  reload: (by: string) => Promise<ReloadReport>;
  /** Fails readiness, accepts requests for `drain` more seconds, completes the active ones, and closes everything. */
  stop: (drain?: number) => Promise<void>;
  /** Leaves new connections to other processes, and closes everything when none of its own is left. */
  leave: () => Promise<void>;
};

/** Only tests set `now`, `documentFetching` and `timeouts`. */
export type StartOptions = {
  /** Reads the settings again. Without it, a reload uses the same ones. */
  source?: SettingsSource;
  /** Whether a new, empty store may take the place of an earlier one. */
  newStore?: boolean;
  logger?: Logger;
  now?: () => number;
  documentFetching?: DocumentFetching;
  timeouts?: Partial<HttpTimeouts>;
  /** Of a worker. */
  gatherMetrics?: GatherMetrics | undefined;
};

export type SettingsSource = Pick<ReloadOptions, 'read' | 'secretVariables'>;

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
    const services = await openProcessServices(
      settings,
      {
        logger,
        now,
        stopping: stopping.signal,
        newStore: options.newStore,
        gatherMetrics: options.gatherMetrics,
      },
      resources,
    );
    await requireRestored(services.store);
    const open = (next: Settings) => openGeneration(next, services, options.documentFetching);
    const generations = new Generations(await open(settings), services);
    resources.defer(() => generations.close());
    const { servers, served } = await listen(generations.current.hosts, timeouts);
    generations.current.runChecks(stopping.signal);
    const delivery = followDelivery();
    const { read = () => settings, secretVariables = () => [] } = options.source ?? {};
    const reloads = await openReloads({
      ...services,
      digestKey: await persistentKey(services.store, 'digests of settings'),
      read,
      secretVariables,
      current: () => services.settings,
      async prepare(next) {
        const generation = await open(next);
        return {
          discard: generation.close,
          commit() {
            replaceHosts(servers, isServed(served, generation.hosts));
            services.settings = next;
            logger.level = next.logLevel;
            generations.replace(generation);
            delivery.follow(next, generation.services);
            noteSettings(next, generation.services);
            logNotices(next, logger);
            generation.runChecks(stopping.signal);
          },
        };
      },
    });
    resources.defer(() => reloads.stop());
    delivery.follow(settings, generations.current.services);
    noteSettings(settings, generations.current.services);
    resources.defer(delivery.stop);
    const chain = keepChain(() => generations.current.services, services.auditMemory);
    resources.defer(chain.stop);
    services.reloads = reloads;
    const rewrapping = services.store.rewrap.start(logger);
    resources.defer(rewrapping.stop);
    if (settings.roles.includes('management')) {
      const { keepAccountIndex, keepCredentialsEnded } = await import('./management/app.ts');
      resources.defer(keepAccountIndex(services.store).stop);
      const current = () => ({
        settings: services.settings,
        services: generations.current.services,
      });
      resources.defer(keepCredentialsEnded(current).stop);
    }
    const urls = urlsOf(settings, served);
    return {
      store: services.store,
      logger,
      urls,
      startupMessage: () => startupMessage(settings, { store: services.store, urls }),
      settings: () => services.settings,
      reload: (by) => reloadSettings(generations.current.services, by),
      async stop(drain) {
        stopping.abort();
        await closeAll(servers, { drain, endCalls: generations.endRequests, timeouts });
        await resources.close();
      },
      async leave() {
        await leaveAll(servers, { endCalls: generations.endRequests });
        await resources.close();
      },
    };
  } catch (error) {
    await resources.close();
    throw error;
  }
}

/** Another process may serve the embedded identity provider. */
function isServed(served: ListeningHost[], hosts: ListeningHost[]): ListeningHost[] {
  return hosts.filter(({ url }) => served.some((host) => host.url === url));
}

function logNotices(settings: Settings, logger: Logger): void {
  for (const { setting, what, remedy } of ruleNotices(settings))
    logger.warn({ what: setting }, `${setting}: ${what}; ${remedy}`);
  if (settings.raisedUsedClient !== undefined)
    logger.warn(
      { what: 'lifetimes.usedClient' },
      'lifetimes.usedClient: shorter than refreshTokenIdle, so refreshTokenIdle applies to it: apps would go on with a registration that is no longer known; set it to refreshTokenIdle or more',
    );
}

/** A store that is only half restored may give access that was taken away. */
async function requireRestored(store: Store): Promise<void> {
  const since = await unfinishedSince(store);
  if (since === undefined) return;
  throw new StoreNotOpened(
    `a restore of the store that began at ${since} has not ended: run gatehouse restore again, with the same options`,
  );
}

/** Not awaited: the process works without it. */
function noteSettings(settings: Settings, services: Services): void {
  warnOfMissingGroups(settings, services).catch((error: unknown) =>
    services.logger.error({ err: error }, 'whether groups arrive could not be checked'),
  );
  noteAuditSettings(services, settings).catch((error: unknown) =>
    services.logger.error({ err: error }, 'a change of the audit settings may not be on record'),
  );
}

async function warnOfMissingGroups(
  settings: Settings,
  { store, now, logger }: Services,
): Promise<void> {
  for (const missing of await findMissingGroups(store, settings, now()))
    logger.warn({ what: missing.provider }, `${missingGroupsText(missing)}; ${missing.remedy}`);
}

const MAX_GENERATIONS = 4;

/** The hosts in force, and earlier ones that still have requests. */
class Generations {
  current: Generation;
  readonly #services: Pick<ProcessServices, 'logger' | 'metrics'>;
  /** Oldest first, with what resolves when they have closed. */
  readonly #retired = new Map<Generation, Promise<void>>();

  constructor(first: Generation, services: Pick<ProcessServices, 'logger' | 'metrics'>) {
    this.current = first;
    this.#services = services;
  }

  replace(next: Generation): void {
    const before = this.current;
    this.current = next;
    this.#retired.set(before, this.#retire(before));
    this.#count();
    for (const older of this.#retired.keys()) older.follow(next.settings);
    // The oldest may have calls that take long, so it is not enough to end its streams.
    const excess = Math.max(0, this.#retired.size + 1 - MAX_GENERATIONS);
    for (const oldest of [...this.#retired.keys()].slice(0, excess)) oldest.hurry();
  }

  async #retire(generation: Generation): Promise<void> {
    try {
      await generation.retire();
    } catch (error) {
      this.#services.logger.error({ err: error }, 'hosts of earlier settings did not close');
    }
    this.#retired.delete(generation);
    this.#count();
  }

  #count(): void {
    this.#services.metrics.settings({ generations: this.#retired.size + 1 });
  }

  readonly endRequests = (kind: RequestKind): void => {
    for (const generation of [...this.#retired.keys(), this.current]) generation.endRequests(kind);
  };

  /** Call when no request is left. */
  async close(): Promise<void> {
    await this.current.close();
    await Promise.all([...this.#retired.keys()].map((generation) => generation.close()));
  }
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

/** The other process may be starting too. */
const ISSUER_TIMEOUT_MS = 5000;

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

function urlsOf(settings: Settings, served: ListeningHost[]): ServedUrls {
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
