// Changes whose items are not lost if the process ends, or the store fails, between the change and its items: they are kept before the change, and
// recorded later by any process.
import { isStoreFault, type Store, StoreFull } from '../store/store.ts';
import { type AuditItem, auditItem, type AuditServices, storeAudit } from './audit.ts';
import { searchAudit } from './audit-search.ts';

/** Its outcome is `done`, unless it says another one. */
export type ChangeItem = Omit<AuditItem, 'id' | 'time' | 'outcome'> & { outcome?: string };

/** Lists of items as JSON. A set, so that many changes can begin at once. */
const BEGUN = 'audit-begun:all';
/** A change takes less. */
const PATIENCE_SECONDS = 60;
const PAGE_ITEMS = 200;

/** Makes a change, and records it. `begun` is recorded in its place if nobody knows later whether it was made. */
export function recordChange<T>(
  services: AuditServices,
  begun: ChangeItem,
  {
    make,
    itemOf,
  }: {
    make: () => Promise<T>;
    /** The item of what was made, if more is known of it now; undefined if nothing was changed. */
    itemOf: (made: T) => ChangeItem | undefined;
  },
): Promise<T> {
  const itemsOf = (made: T) => [itemOf(made)].filter((item) => item !== undefined);
  return recordChanges(services, [begun], { make, itemsOf });
}

/** As `recordChange`, for one change with several items. */
export async function recordChanges<T>(
  services: AuditServices,
  begun: readonly ChangeItem[],
  { make, itemsOf }: { make: () => Promise<T>; itemsOf: (made: T) => readonly ChangeItem[] },
): Promise<T> {
  const { store } = services;
  const kept = begun.map((item) => auditItem(services, { ...item, outcome: 'interrupted' }));
  const member = JSON.stringify(kept);
  await store.addMember(BEGUN, member, Infinity).catch((error: unknown) => {
    // A full store can still take access away.
    if (!(error instanceof StoreFull)) throw error;
  });
  const made = await make().catch(async (error: unknown) => {
    // With any other error, the change was refused.
    if (!isStoreFault(error)) await store.removeMember(BEGUN, member).catch(() => undefined);
    throw error;
  });
  const done = itemsOf(made).map((item, index) =>
    auditItem(services, { outcome: 'done', ...item, id: kept[index]?.id }),
  );
  await storeAudit(
    services,
    done.map((item) => ({ item, part: 'lasting' })),
  );
  // If this fails, another process finds the items in the log.
  await store.removeMember(BEGUN, member).catch(() => undefined);
  return made;
}

/** Records what was begun, and nobody knows whether it was done. */
export async function recordInterrupted(services: AuditServices): Promise<void> {
  const { store, now } = services;
  for (const member of await store.members(BEGUN)) {
    const items = JSON.parse(member) as AuditItem[];
    const at = Date.parse(items[0]?.time ?? '') / 1000;
    if (now() - at < PATIENCE_SECONDS) continue;
    for (const { time: _time, ...begun } of items) {
      if (await isRecorded(store, begun, at - PATIENCE_SECONDS)) continue;
      const item = auditItem(services, begun);
      // Another process may do the same.
      const again = { token: item.id, isAgain: true };
      await storeAudit(services, [{ item, part: 'lasting' }], again);
    }
    await store.removeMember(BEGUN, member);
  }
}

async function isRecorded(
  store: Store,
  { id, event, account }: Omit<AuditItem, 'time'>,
  since: number,
): Promise<boolean> {
  const filters = { event, account, since };
  for (let after: string | undefined; ;) {
    const { items, next } = await searchAudit({ store }, { filters, limit: PAGE_ITEMS, after });
    if (items.some((recorded) => recorded.id === id)) return true;
    if (next === undefined) return false;
    after = next;
  }
}
