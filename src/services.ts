import type { KeyObject } from 'node:crypto';
import type { Logger } from 'pino';
import { type AuditBlocks, openAuditBlocks } from './audit/audit-blocks.ts';
import { type Activity, countActivity, openActivity } from './audit/activity.ts';
import { type AuditServices, auditLogger } from './audit/audit.ts';
import { type KeptAudit, keepAudit } from './audit/audit-keep.ts';
import { keptCalls } from './audit/audit-reach.ts';
import { findProgress } from './audit/delivery/progress.ts';
import { type AuditBuffer, openAuditBuffer } from './audit/audit-buffer.ts';
import { type ClockGuard, openClockGuard } from './audit/clock-leap.ts';
import { type AuditMemory, openAuditMemory } from './audit/chain/rollback.ts';
import { type AttemptRecorder, openAttemptRecorder } from './connections/attempt-recorder.ts';
import type { StoredDigests } from './audit/chain/stored-digests.ts';
import { REASONS } from './connections/reasons.ts';
import { recordedAddress } from './http/client-subnet.ts';
import { openSearchCache, type SearchCache } from './audit/search-cache.ts';
import { MACHINES_CHANNEL } from './clients/machines.ts';
import { CONNECTORS_CHANNEL } from './links/connectors.ts';
import { ACCOUNTS_CHANNEL } from './people/accounts.ts';
import { openPages, type Pages } from './pages/pages.ts';
import { openRateLimits, type RateLimits } from './http/rate-limits.ts';
import { persistentKey } from './keys/persistent-key.ts';
import { openSigningKeyRing, type SigningKeyRing } from './keys/signing-keys.ts';
import { createMetrics, type GatherMetrics, type Metrics } from './observability/metrics.ts';
import { type Keep, openKeeper, withSubscriptions } from './keep.ts';
import type { Traces } from './observability/tracing.ts';
import type { Reloads } from './reload/reloads.ts';
import type { Resources } from './resources.ts';
import type { Settings } from './settings/settings.ts';
import { version } from './version.ts';
import { instrumentedStore } from './store/instrumented-store.ts';
import { earlierStore } from './store/earlier-store.ts';
import { type OpenedStore, openStore } from './store/open.ts';
import type { KeyRing } from './store/stored-keys.ts';
import { StoreUnavailable } from './store/store.ts';

/** What the hosts of a process share, under one version of the settings. */
export type Services = {
  version: string;
  store: OpenedStore;
  /** Seconds since the epoch. */
  now: () => number;
  logger: Logger;
  metrics: Metrics;
  activity: Activity;
  auditLog: AuditServices['auditLog'];
  digests: StoredDigests;
  /** Of items that nobody waits for. */
  auditBuffer: AuditBuffer;
  attempts: AttemptRecorder;
  /** Undefined in a process without management. */
  auditBlocks: AuditBlocks | undefined;
  /** Undefined in a process without management. */
  searchCache: SearchCache | undefined;
  /** Undefined if traces are off. */
  traces: Traces | undefined;
  pages: Pages;
  rateLimits: RateLimits;
  keys: Keys;
  /** Throws before the process has started. */
  reloads: () => Reloads;
  /** Shares something with the hosts of earlier and later settings. */
  keep: Keep;
  /** Rejects if the process must not receive requests. */
  isReady: () => Promise<Readiness>;
};

/** What `/readyz` says of a process that is ready. `differ`: other processes have other settings. */
export type Readiness = { settings?: 'differ' };

export type Keys = {
  /** Derives account ids. Never changes. */
  accountIds: KeyObject;
  /** Derives nonces for DPoP proofs. Never changes. */
  dpopNonces: KeyObject;
  /** Authenticate form tokens. */
  forms: KeyRing;
  /** Undefined in a process that signs nothing. */
  signing: SigningKeyRing | undefined;
};

export type ServiceOptions = Pick<Services, 'logger' | 'now'> & {
  /** When it is aborted, the process is no longer ready. */
  stopping: AbortSignal;
  /** Whether a new, empty store may take the place of an earlier one. */
  newStore?: boolean | undefined;
  gatherMetrics?: GatherMetrics | undefined;
};

/** What outlives the settings. */
export type ProcessServices = Omit<
  Services,
  | 'keep'
  | 'pages'
  | 'auditLog'
  | 'digests'
  | 'auditBuffer'
  | 'attempts'
  | 'auditBlocks'
  | 'searchCache'
  | 'traces'
  | 'rateLimits'
  | 'keys'
  | 'reloads'
> & {
  keys: Omit<Keys, 'signing'>;
  /** Returns the `keep` of one generation of hosts. */
  keeper: (generation: Resources) => Keep;
  auditMemory: AuditMemory;
  clockGuard: ClockGuard;
  /** The settings in force, for what cannot be opened again. */
  settings: Settings;
  /** Set when the process has started. */
  reloads?: Reloads;
};

/** Adds to `resources` what must be closed, also if it throws. */
export async function openProcessServices(
  settings: Settings,
  { logger, now, stopping, newStore = false, gatherMetrics }: ServiceOptions,
  resources: Resources,
): Promise<ProcessServices> {
  const processMetrics = createMetrics(Object.keys(REASONS), gatherMetrics);
  const { secret, previousSecret, dataDir, storeId } = settings;
  const earlier = newStore ? undefined : earlierStore(settings, now());
  const keys = { secret, previousSecret };
  const store = instrumentedStore(
    await openStore(settings.store, { ...keys, dataDir, storeId, earlier, logger, now }),
    { metrics: processMetrics, system: databaseOf(settings), now },
  );
  resources.defer(() => store.close());
  if (store.createdAt !== undefined)
    logger.info(
      { what: 'store', storeId: store.id },
      `a new, empty store was created at ${store.createdAt}`,
    );
  for (const notice of store.notices) logger.warn({ what: 'store' }, notice);
  const activity = openActivity({
    store,
    levels: () => services.settings.levels,
    now,
    onError: (error) =>
      logger.warn({ err: error }, 'the counts of the console overview are delayed'),
  });
  resources.defer(() => activity.close());
  const services: ProcessServices = {
    settings,
    keeper: openKeeper(store),
    auditMemory: openAuditMemory(),
    clockGuard: openClockGuard(),
    version,
    store,
    now,
    logger,
    metrics: countActivity(processMetrics, activity),
    activity,
    keys: await openKeys(store),
    async isReady() {
      stopping.throwIfAborted();
      await Promise.all([store.ping(), services.reloads?.requireFollowed()]);
      const differs = (services.reloads?.differing() ?? []).length > 0;
      return differs ? { settings: 'differ' } : {};
    },
  };
  return services;
}

/** Opens what depends on the settings, for one generation of hosts. */
export async function openServices(
  settings: Settings,
  processServices: ProcessServices,
  resources: Resources,
): Promise<Services> {
  const {
    settings: _settings,
    reloads: _reloads,
    keeper,
    auditMemory,
    clockGuard,
    ...shared
  } = processServices;
  const { logger, now, metrics } = shared;
  const keep = keeper(resources);
  const signing = needsSigningKeys(settings)
    ? await keep('signing keys', async ({ store, resources: kept }) => {
        const opened = await openSigningKeyRing(store, now, logger);
        kept.defer(opened.close);
        return opened;
      })
    : undefined;
  const store = withSubscriptions(shared.store, resources);
  const writeLine = settings.audit.log ? auditLogger(logger) : () => undefined;
  const auditLog: AuditServices['auditLog'] = (item) => {
    auditMemory.remember(item);
    writeLine(item);
  };
  const { digests } = auditMemory;
  const auditServices = { store: shared.store, metrics, auditLog, now, logger, digests };
  // Hosts of earlier settings, which may live for long, trim by those in force too.
  const keeping = keepAudit(auditServices, clockGuard, () => keptAudit(processServices));
  resources.defer(keeping.stop);
  const auditBuffer = openAuditBuffer({
    services: auditServices,
    hasRoom: keeping.hasRoom,
    keepTime: () => keptCalls(processServices.settings).time,
  });
  resources.defer(() => auditBuffer.close());
  const rateLimits = openRateLimits(settings.limits, store.openCounter, now, metrics);
  const { addresses } = settings.audit;
  const attempts = await keep(
    `attempts ${JSON.stringify([settings.limits, addresses])}`,
    ({ resources: kept }) => {
      const opened = openAttemptRecorder({
        store: shared.store,
        logger,
        metrics,
        now,
        mayAdd: async (address) =>
          (await rateLimits.recordedAttempts.consume(address)) === undefined,
        keptAddress: (address) => recordedAddress(address, addresses),
      });
      kept.defer(opened.close);
      return opened;
    },
  );
  return {
    ...shared,
    store,
    metrics: {
      ...metrics,
      watchStreams(host, count) {
        const end = metrics.watchStreams(host, count);
        resources.defer(end);
        return end;
      },
    },
    keep,
    reloads() {
      if (!processServices.reloads) throw new Error('the process has not started yet');
      return processServices.reloads;
    },
    keys: { ...shared.keys, signing },
    auditLog,
    digests,
    auditBuffer,
    attempts,
    auditBlocks: await openKeptBlocks(settings, keep, logger),
    searchCache: await openKeptSearchCache(settings, keep),
    traces: await openTraces(settings.traces, keep, { logger, now }),
    pages: openPages({ ...pageSettings(settings), now }, settings.theme),
    rateLimits,
  };
}

function keptAudit({ settings, store }: ProcessServices): KeptAudit {
  return {
    ...settings.audit,
    async delivered() {
      const { delivery } = settings.audit;
      const places = await Promise.all(delivery.map(({ id }) => findProgress(store, id)));
      return places.map((place) => place?.delivered ?? Infinity);
    },
    keepCalls: keptCalls(settings),
  };
}

export function pageSettings({
  productName,
  links,
  supportContact,
  levels,
  upstreams,
}: Omit<Settings, 'secret' | 'managementKey' | 'hasOwnManagementKey'>) {
  const describesSample = upstreams.length === 0;
  return {
    productName,
    links,
    levels,
    describesSample,
    ...(supportContact === undefined ? {} : { supportContact }),
  };
}

function databaseOf({ store }: Settings): 'redis' | 'sqlite' {
  return store.kind === 'sqlite' ? 'sqlite' : 'redis';
}

async function openKeptBlocks(
  { roles }: Settings,
  keep: Keep,
  logger: Services['logger'],
): Promise<AuditBlocks | undefined> {
  if (!roles.includes('management')) return undefined;
  return keep('index of the audit log', ({ store, resources }) => {
    const blocks = openAuditBlocks(store, (error) => {
      // The store reports its own failures.
      if (!(error instanceof StoreUnavailable))
        logger.error({ err: error }, 'the index of the audit log could not be read');
    });
    resources.defer(blocks.stop);
    return blocks;
  });
}

async function openKeptSearchCache(
  { roles }: Settings,
  keep: Keep,
): Promise<SearchCache | undefined> {
  if (!roles.includes('management')) return undefined;
  return keep('cache of searches in the audit log', async ({ store, resources }) => {
    const cache = await openSearchCache(store, {
      people: ACCOUNTS_CHANNEL,
      apps: MACHINES_CHANNEL,
      connectors: CONNECTORS_CHANNEL,
    });
    resources.defer(cache.close);
    return cache;
  });
}

/** Loads OpenTelemetry only when traces are on, because it costs memory and startup time. */
async function openTraces(
  traces: Settings['traces'],
  keep: Keep,
  services: Pick<Services, 'logger' | 'now'>,
): Promise<Traces | undefined> {
  if (!traces) return undefined;
  return keep(`traces ${JSON.stringify(traces)}`, async ({ resources }) => {
    const opentelemetry = await import('./observability/opentelemetry.ts');
    const opened = opentelemetry.openTraces(traces, { version, ...services });
    resources.defer(opened.close);
    return opened;
  });
}

async function openKeys(store: OpenedStore): Promise<Omit<Keys, 'signing'>> {
  const [accountIds, dpopNonces] = await Promise.all([
    persistentKey(store, 'account-ids'),
    persistentKey(store, 'dpop-nonces'),
  ]);
  return { accountIds, dpopNonces, forms: store.keyRing('forms') };
}

/** A resource server signs only caller headers, for an upstream. */
function needsSigningKeys({ roles, upstreams }: Settings): boolean {
  return (
    roles.includes('authorization-server') ||
    (roles.includes('resource-server') && upstreams.length > 0)
  );
}
