// Changes whose item is not lost if the process ends, or the store fails, between the change and its item: the item is kept before the change, and
// recorded later by any process.
import type { Store } from '../store/store.ts';
import { type AuditItem, type AuditServices, newItemId, recordAudit } from './audit.ts';
import { searchAudit } from './audit-search.ts';

type Begun = Omit<AuditItem, 'time' | 'outcome' | 'id'>;

/** By the id of the item. `at` is in seconds since the epoch. */
type Pending = Record<string, { item: Begun; at: number }>;

const PENDING = 'audit-pending:all';
const PENDING_TTL = Infinity;
/** A change takes less. */
const PATIENCE_SECONDS = 60;
/** Of the same event and account. */
const MAX_LATER_ITEMS = 20;

/** Makes a change, and records it if `isChanged`. */
export async function recordChange<T>(
  services: AuditServices,
  item: Begun,
  { make, isChanged }: { make: () => Promise<T>; isChanged: (made: T) => boolean },
): Promise<T> {
  const { store, now } = services;
  const id = newItemId();
  await updatePending(store, (pending) => ({ ...pending, [id]: { item, at: now() } }));
  const made = await make();
  if (isChanged(made)) await recordAudit(services, { ...item, id, outcome: 'done' });
  await removePending(store, id);
  return made;
}

/** Records what was begun, and nobody knows whether it was done. */
export async function recordInterrupted(services: AuditServices): Promise<void> {
  const { store, now } = services;
  const pending = (await store.get<Pending>(PENDING))?.value ?? {};
  for (const [id, { item, at }] of Object.entries(pending)) {
    if (now() - at < PATIENCE_SECONDS) continue;
    const { event, account } = item;
    const filters = { event, account, since: at - PATIENCE_SECONDS };
    const { items } = await searchAudit({ store }, { filters, limit: MAX_LATER_ITEMS });
    if (!items.some((recorded) => recorded.id === id))
      await recordAudit(services, { ...item, id, outcome: 'interrupted' });
    await removePending(store, id);
  }
}

function removePending(store: Store, id: string): Promise<void> {
  return updatePending(store, ({ [id]: _removed, ...others }) => others);
}

async function updatePending(store: Store, change: (pending: Pending) => Pending): Promise<void> {
  await store.update<Pending>(PENDING, (current = {}) => {
    const value = change(current);
    return Object.keys(value).length === 0 ? undefined : { value, ttl: PENDING_TTL };
  });
}
