import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import type { Metrics } from '../observability/metrics.ts';
import type { Entry, Range, Store } from '../store/store.ts';

export type AuditItem = {
  /** ISO 8601. */
  time: string;
  /** One of `auditEvents` (observability/labels.ts). */
  event: string;
  account?: string;
  clientId?: string;
  connector?: string;
  grantId?: string;
  /** Who made a change in management: `key:<name>`, or `account:<id>` in the console. Earlier items have the account id alone, or nothing for the key. */
  by?: string | undefined;
  tool?: string;
  /** Details of an event. `{bytes, sha256}` of the JSON for a refused call, or if it is larger than 4 kB. Earlier calls have their arguments here. */
  arguments?: unknown;
  /** The arguments of a call, as JSON text (`recordableArguments`). */
  argumentsJson?: string;
  outcome: string;
  reason?: string;
};

export type AuditServices = {
  store: Store;
  metrics: Pick<Metrics, 'auditEvent'>;
  /** Called with each stored item. */
  auditLog: (item: AuditItem) => void;
  /** Seconds since the epoch. */
  now: () => number;
};

const STREAM = 'audit:all';
export const AUDIT_RETENTION_SECONDS = 400 * 86_400;
const MAX_ARGUMENTS_BYTES = 4096;
const MAX_TOOL_LENGTH = 128;

/** Resolves when the item is stored. */
export async function recordAudit(
  { store, metrics, auditLog, now }: AuditServices,
  item: Omit<AuditItem, 'time'>,
): Promise<void> {
  const time = new Date(now() * 1000).toISOString();
  const stored: AuditItem = { time, ...item, ...truncated(item) };
  await store.append<AuditItem>(STREAM, stored, AUDIT_RETENTION_SECONDS);
  metrics.auditEvent(item.event, item.reason);
  auditLog(stored);
}

/** As `recordAudit`, and also waits for a replica, so that a failover does not lose the item. */
export async function recordAuditDurably(
  services: AuditServices,
  item: Omit<AuditItem, 'time'>,
): Promise<void> {
  await recordAudit(services, item);
  await services.store.replicated(STREAM);
}

/** Writes items to the log as `{"audit": {…}}`, whatever the log level is. */
export function auditLogger(logger: Logger): AuditServices['auditLog'] {
  const lines = logger.child({}, { level: 'info' });
  return (audit) => lines.info({ audit }, 'audit item');
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
  const digest = digestOf(given);
  return digest.bytes <= MAX_ARGUMENTS_BYTES ? given : digest;
}

/** Returns the length and the hash of the JSON, which identify arguments that are too long or useless to store. */
export function digestOf(given: unknown): { bytes: number; sha256: string } {
  const json = JSON.stringify(given);
  return {
    bytes: Buffer.byteLength(json),
    sha256: createHash('sha256').update(json).digest('hex'),
  };
}

export async function readAudit(store: Store, range: Range): Promise<Entry<AuditItem>[]> {
  return store.range<AuditItem>(STREAM, range);
}
