import { createHash } from 'node:crypto';
import type { Metrics } from '../observability/metrics.ts';
import type { Entry, Range, Store } from '../store/store.ts';

/** `event` is `call`, for a call with the level `full`, or a security event such as `refresh_replay`. */
export type AuditItem = {
  /** ISO 8601. */
  time: string;
  event: string;
  account?: string;
  clientId?: string;
  connector?: string;
  grantId?: string;
  /** The account of the administrator who used the console. Absent for the management key. */
  by?: string | undefined;
  tool?: string;
  /** `{bytes, sha256}` of the JSON if it is larger than 4 kB. */
  arguments?: unknown;
  outcome: string;
  reason?: string;
};

export type AuditServices = {
  store: Store;
  metrics: Pick<Metrics, 'auditEvent'>;
  /** Seconds since the epoch. */
  now: () => number;
};

const STREAM = 'audit:all';
const RETENTION_SECONDS = 400 * 86_400;
const MAX_ARGUMENTS_BYTES = 4096;
const MAX_TOOL_LENGTH = 128;

/** Resolves when the item is stored. */
export async function recordAudit(
  { store, metrics, now }: AuditServices,
  item: Omit<AuditItem, 'time'>,
): Promise<void> {
  const time = new Date(now() * 1000).toISOString();
  await store.append<AuditItem>(STREAM, { time, ...item, ...truncated(item) }, RETENTION_SECONDS);
  metrics.auditEvent(item.event, item.reason);
}

/** As `recordAudit`, and also waits for a replica, so that a failover does not lose the item. */
export async function recordAuditDurably(
  services: AuditServices,
  item: Omit<AuditItem, 'time'>,
): Promise<void> {
  await recordAudit(services, item);
  await services.store.replicated(STREAM);
}

/** Bounds what a client can store, because items are kept for more than a year. */
function truncated(item: Partial<AuditItem>): Partial<AuditItem> {
  return {
    ...(item.tool === undefined
      ? {}
      : { tool: item.tool.slice(0, MAX_TOOL_LENGTH).toWellFormed() }),
    ...(item.arguments === undefined ? {} : { arguments: truncatedArguments(item.arguments) }),
  };
}

function truncatedArguments(given: unknown): unknown {
  const json = JSON.stringify(given);
  const bytes = Buffer.byteLength(json);
  if (bytes <= MAX_ARGUMENTS_BYTES) return given;
  return { bytes, sha256: createHash('sha256').update(json).digest('hex') };
}

export async function readAudit(store: Store, range: Range): Promise<Entry<AuditItem>[]> {
  return store.range<AuditItem>(STREAM, range);
}
