// How far back the log has all calls of levels that are not recorded, and how many more fit into the store.
import type { Settings } from '../settings/settings.ts';
import type { Store } from '../store/store.ts';

/** Of a call without arguments in the store, with its index and its part of the list of a checkpoint. */
const CALL_BYTES = 750;

const DEFAULT_ITEMS = { sqlite: 1_000_000, redis: 200_000 } as const;

/** The limits of `audit.keepCalls`: seconds, and the number of calls. */
export type KeptCalls = { time: number; items: number };

export function keptCalls({ audit, store }: Pick<Settings, 'audit' | 'store'>): KeptCalls {
  const items = DEFAULT_ITEMS[store.kind === 'sqlite' ? 'sqlite' : 'redis'];
  const { keepCalls, keep } = audit;
  return { items, ...keepCalls, time: Math.min(keepCalls.time, keep) };
}

const REACH = 'audit-reach:bulk';

/** The calls until this time (seconds since the epoch) are not complete. */
type Reach = { incompleteUntil: number };

/** Seconds, up to `keepTime`. */
export async function readAuditReach(
  { store, now }: { store: Store; now: () => number },
  keepTime: number,
): Promise<number> {
  const found = await store.get<Reach>(REACH);
  return found ? Math.max(0, Math.min(keepTime, now() - found.value.incompleteUntil)) : keepTime;
}

export async function noteReach(
  { store }: { store: Store },
  until: number,
  keepTime: number,
): Promise<void> {
  await store.update<Reach>(REACH, (current) => ({
    value: { incompleteUntil: Math.max(until, current?.incompleteUntil ?? 0) },
    ttl: keepTime,
  }));
}

/** How many more calls the store has memory for. Infinity if it does not tell. */
export async function roomForCalls(store: Store): Promise<number> {
  return Math.max(0, Math.floor((await store.freeBytes()) / CALL_BYTES));
}
