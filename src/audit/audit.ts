// The audit log: calls made with the level `full`, and security events, in the order they happened.
import type { Entry, Store } from '../store/store.ts';

/** `event` is `call` or a security event such as `refresh_replay`; `time` is ISO 8601. */
export type AuditItem = {
  time: string;
  event: string;
  account?: string;
  clientId?: string;
  connector?: string;
  grantId?: string;
  tool?: string;
  arguments?: unknown;
  outcome: string;
  reason?: string;
};

const STREAM = 'audit:all';
const KEPT = 400 * 86_400;

/** Resolves when the item is stored, so that what must be recorded can wait for it. `now` is seconds. */
export async function recordAudit(
  store: Store,
  item: Omit<AuditItem, 'time'>,
  now: number,
): Promise<void> {
  await store.append<AuditItem>(
    STREAM,
    { time: new Date(now * 1000).toISOString(), ...item },
    KEPT,
  );
}

/** Oldest first, from after the entry `after`. */
export async function readAudit(
  store: Store,
  options: { after?: string; limit: number },
): Promise<Entry<AuditItem>[]> {
  return store.range<AuditItem>(STREAM, options);
}
