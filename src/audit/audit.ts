import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import { pooledRandom } from '../pooled-random.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Store } from '../store/store.ts';
import type { StoredDigests } from './chain/stored-digests.ts';
import {
  appendAudit,
  type AppendOptions,
  auditReplicated,
  type NewAuditItem,
} from './audit-log.ts';

export type AuditItem = {
  /** Unique. Items of earlier versions have none, and neither of the next two. */
  id?: string | undefined;
  /** Of the log: another one begins when the log is restored. */
  epoch?: string | undefined;
  /** In the order of storing, without gaps. */
  number?: number | undefined;
  /** ISO 8601. */
  time: string;
  /** One of `auditEvents` (observability/labels.ts). */
  event: string;
  account?: string | undefined;
  clientId?: string | undefined;
  connector?: string | undefined;
  grantId?: string | undefined;
  /** Who made a change in management: `key:<name>`, or `account:<id>` in the console. Earlier items have the account id alone, or nothing for the key. */
  by?: string | undefined;
  /** Of a call, as the rest up to `traceId`. `tool` for `tools/call`, else `method`. */
  tool?: string | undefined;
  method?: string | undefined;
  /** The URI of a resource without its query, or the name of a prompt. */
  target?: string | undefined;
  upstream?: string | undefined;
  level?: string | undefined;
  /** Milliseconds. */
  ms?: number | undefined;
  bytesIn?: number | undefined;
  bytesOut?: number | undefined;
  /** The result of the tool says that it failed. */
  toolError?: boolean | undefined;
  address?: string | undefined;
  userAgent?: string | undefined;
  clientName?: string | undefined;
  /** Of a workload: who it is at its platform. */
  subject?: string | undefined;
  traceId?: string | undefined;
  /** The id of the call that this item ends. */
  call?: string | undefined;
  /** Of a checkpoint: its number, and what was signed (chain/checkpoint.ts). */
  checkpoint?: number | undefined;
  jws?: string | undefined;
  /** Of trimmed items. */
  class?: string | undefined;
  ranges?: [first: number, last: number][] | undefined;
  /** Further refused calls that this item stands for, or dropped items. */
  count?: number | undefined;
  /** Details of an event. `{bytes, sha256}` of the JSON for a refused call, or if it is larger than 4 kB. Earlier calls have their arguments here. */
  arguments?: unknown;
  /** The arguments of a call, as JSON text (`recordableArguments`). */
  argumentsJson?: string | undefined;
  outcome: string;
  reason?: string | undefined;
};

export type AuditServices = {
  store: Store;
  metrics: Pick<Metrics, 'auditEvent'>;
  /** Called with each stored item. */
  auditLog: (item: AuditItem) => void;
  /** Seconds since the epoch. */
  now: () => number;
  digests?: StoredDigests;
};

const MAX_ARGUMENTS_BYTES = 4096;
const MAX_TOOL_LENGTH = 128;

/** Resolves when the item is stored. */
export async function recordAudit(
  services: AuditServices,
  item: Omit<AuditItem, 'time'>,
): Promise<AuditItem> {
  const made = auditItem(services, item);
  const [stored = made] = await storeAudit(services, [{ item: made, part: 'lasting' }]);
  return stored;
}

/** As `storeAudit`, and also waits for a replica, so that a failover does not lose the items. */
export async function storeAuditDurably(
  services: AuditServices,
  added: readonly NewAuditItem[],
): Promise<AuditItem[]> {
  const stored = await storeAudit(services, added);
  if (added.length > 0) await auditReplicated(services.store);
  return stored;
}

/** An item of now, with an id and bounded. */
export function auditItem(
  { now }: Pick<AuditServices, 'now'>,
  item: Omit<AuditItem, 'time'>,
): AuditItem {
  const time = new Date(now() * 1000).toISOString();
  return { id: newItemId(), time, ...item, ...truncated(item) };
}

const ID_BYTES = 15;
const random = pooledRandom();

export function newItemId(): string {
  return random(ID_BYTES).toString('base64url');
}

/** Appends items in one write, and returns them with their numbers. A write that is repeated with its `token` has no effect. */
export async function storeAudit(
  { store, metrics, auditLog, digests }: Omit<AuditServices, 'now'>,
  added: readonly NewAuditItem[],
  again: Pick<AppendOptions, 'token' | 'isAgain' | 'late'> = {},
): Promise<AuditItem[]> {
  const stored = await appendAudit(store, added, { ...again, digests });
  for (const items of Map.groupBy(
    stored,
    ({ event, reason = '' }) => `${event} ${reason}`,
  ).values())
    metrics.auditEvent(items[0]?.event ?? '', items[0]?.reason, items.length);
  for (const item of stored) auditLog(item);
  return stored;
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
