import type { KeyObject } from 'node:crypto';
import type { Logger } from 'pino';
import { type Activity, countActivity, openActivity } from './audit/activity.ts';
import { type AuditServices, auditLogger } from './audit/audit.ts';
import { REASONS } from './connections/reasons.ts';
import { openPages, type Pages } from './pages/pages.ts';
import { openRateLimits, type RateLimits } from './http/rate-limits.ts';
import { type KeyRing, keyRing } from './keys/key-ring.ts';
import { persistentKey } from './keys/persistent-key.ts';
import { openSigningKeyRing, type SigningKeyRing } from './keys/signing-keys.ts';
import { createMetrics, type Metrics } from './observability/metrics.ts';
import type { Traces } from './observability/tracing.ts';
import type { Settings } from './settings/settings.ts';
import { version } from './version.ts';
import { instrumentedStore } from './store/instrumented-store.ts';
import { type OpenedStore, openStore } from './store/open.ts';

/** What the hosts of a process share. */
export type Services = {
  version: string;
  store: OpenedStore;
  /** Seconds since the epoch. */
  now: () => number;
  logger: Logger;
  metrics: Metrics;
  activity: Activity;
  auditLog: AuditServices['auditLog'];
  /** Undefined if traces are off. */
  traces: Traces | undefined;
  pages: Pages;
  rateLimits: RateLimits;
  keys: Keys;
  /** Rejects if the process must not receive requests. */
  isReady: () => Promise<void>;
};

export type Keys = {
  /** Derives account ids. Survives root secret rotation. */
  accountIds: KeyObject;
  /** Derives nonces for DPoP proofs. Survives root secret rotation. */
  dpopNonces: KeyObject;
  /** Authenticate form tokens. */
  forms: KeyRing;
  /** Undefined in a process that signs nothing. */
  signing: SigningKeyRing | undefined;
};

export type ServiceOptions = Pick<Services, 'logger' | 'now'> & {
  /** When it is aborted, the process is no longer ready. */
  stopping: AbortSignal;
};

/** What a process must close when it stops. */
export type Resources = {
  defer(close: () => void | Promise<void>): void;
  /** Closes everything, last added first. Rejects with the first error, after everything was closed. */
  close(): Promise<void>;
};

/** Node 22 lacks `AsyncDisposableStack`. */
export function createResources(): Resources {
  const steps: (() => void | Promise<void>)[] = [];
  return {
    defer: (step) => void steps.push(step),
    async close() {
      const errors: unknown[] = [];
      for (const step of steps.splice(0).toReversed())
        try {
          await step();
        } catch (error) {
          errors.push(error);
        }
      if (errors.length > 0) throw errors[0];
    },
  };
}

/** Adds to `resources` what must be closed, also if it throws. */
export async function openServices(
  settings: Settings,
  { logger, now, stopping }: ServiceOptions,
  resources: Resources,
): Promise<Services> {
  const pages = openPages({ ...pageSettings(settings), now }, settings.theme);
  const processMetrics = createMetrics(Object.keys(REASONS));
  const traces = await openTraces(settings, version, { logger, now });
  resources.defer(() => traces?.close());
  const { secret, previousSecret, dataDir } = settings;
  const store = instrumentedStore(
    await openStore(settings.store, { secret, previousSecret, dataDir, logger, now }),
    { metrics: processMetrics, tracedSystem: traces && databaseOf(settings), now },
  );
  resources.defer(() => store.close());
  const activity = openActivity({
    store,
    levels: settings.levels,
    now,
    onError: (error) =>
      logger.warn({ err: error }, 'the counts of the console overview are delayed'),
  });
  resources.defer(() => activity.close());
  const metrics = countActivity(processMetrics, activity);
  const keys = await openKeys(settings, { store, now, logger });
  resources.defer(() => keys.signing?.close());
  return {
    version,
    store,
    now,
    logger,
    metrics,
    activity,
    auditLog: settings.audit.log ? auditLogger(logger) : () => undefined,
    traces,
    pages,
    rateLimits: openRateLimits(settings.limits, store.openCounter, now, metrics),
    keys,
    async isReady() {
      stopping.throwIfAborted();
      await store.ping();
    },
  };
}

function pageSettings({ productName, links, supportContact, levels, upstreams }: Settings) {
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

/** Loads OpenTelemetry only when traces are on, because it costs memory and startup time. */
async function openTraces(
  { traces }: Settings,
  version: string,
  services: Pick<Services, 'logger' | 'now'>,
): Promise<Traces | undefined> {
  if (!traces) return undefined;
  const opentelemetry = await import('./observability/opentelemetry.ts');
  return opentelemetry.openTraces(traces, { version, ...services });
}

async function openKeys(
  settings: Settings,
  { store, now, logger }: Pick<Services, 'store' | 'now' | 'logger'>,
): Promise<Keys> {
  const [accountIds, dpopNonces] = await Promise.all([
    persistentKey(store, settings.secret, 'account-ids'),
    persistentKey(store, settings.secret, 'dpop-nonces'),
  ]);
  const signing = needsSigningKeys(settings)
    ? await openSigningKeyRing(store, now, logger)
    : undefined;
  return { accountIds, dpopNonces, forms: keyRing(settings, 'forms'), signing };
}

/** A resource server signs only caller headers, for an upstream. */
function needsSigningKeys({ roles, upstreams }: Settings): boolean {
  return (
    roles.includes('authorization-server') ||
    (roles.includes('resource-server') && upstreams.length > 0)
  );
}
