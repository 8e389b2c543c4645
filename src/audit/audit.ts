// The audit log: calls made with the level `full`, and security events, in the order they happened.
import { createHash } from 'node:crypto';
import type { Entry, Range, Store } from '../store/store.ts';

/**
 * `event` is `call` or a security event such as `refresh_replay`; `time` is ISO 8601; `by` is the account of the administrator who did it in the
 * console, and absent for whoever has the management key. Arguments of more than 4 kB are kept as
 * `{bytes, sha256}` of their JSON.
 */
export type AuditItem = {
  time: string;
  event: string;
  account?: string;
  clientId?: string;
  connector?: string;
  grantId?: string;
  by?: string | undefined;
  tool?: string;
  arguments?: unknown;
  outcome: string;
  reason?: string;
};

const STREAM = 'audit:all';
const KEPT = 400 * 86_400;
const MOST_ARGUMENTS = 4096;
const LONGEST_TOOL = 128;

/** Resolves when the item is stored, so that what must be recorded can wait for it. `now` is seconds. */
export async function recordAudit(
  store: Store,
  item: Omit<AuditItem, 'time'>,
  now: number,
): Promise<void> {
  const time = new Date(now * 1000).toISOString();
  await store.append<AuditItem>(STREAM, { time, ...item, ...shortened(item) }, KEPT);
}

/** As `recordAudit`, for what nobody may learn of before it is recorded: a failover does not undo it either. */
export async function recordLastingly(
  store: Store,
  item: Omit<AuditItem, 'time'>,
  now: number,
): Promise<void> {
  await recordAudit(store, item, now);
  await store.replicated(STREAM);
}

/** The store, for which `noted` is told of every item that is recorded. */
export function notedAudit<T extends Store>(store: T, noted: (item: AuditItem) => void): T {
  return {
    ...store,
    async append(key: string, value: unknown, ttl: number) {
      await store.append(key, value, ttl);
      if (key === STREAM) noted(value as AuditItem);
    },
  };
}

/** What a caller sends is kept for more than a year, so it must not be able to fill the store. */
function shortened(item: Partial<AuditItem>): Partial<AuditItem> {
  return {
    ...(item.tool === undefined ? {} : { tool: item.tool.slice(0, LONGEST_TOOL).toWellFormed() }),
    ...(item.arguments === undefined ? {} : { arguments: keptArguments(item.arguments) }),
  };
}

function keptArguments(given: unknown): unknown {
  const json = JSON.stringify(given);
  const bytes = Buffer.byteLength(json);
  if (bytes <= MOST_ARGUMENTS) return given;
  return { bytes, sha256: createHash('sha256').update(json).digest('hex') };
}

export async function readAudit(store: Store, range: Range): Promise<Entry<AuditItem>[]> {
  return store.range<AuditItem>(STREAM, range);
}
