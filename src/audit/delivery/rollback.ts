// After the log was restored from a backup, or lost its newest items in a failover, the numbers of lost items are given again, in a new epoch.
import type { Store } from '../../store/store.ts';
import {
  lastAuditNumber,
  type NumberedItem,
  readAuditAfter,
  readAuditItems,
} from '../audit-log.ts';
import { type Delivered, type DeliveryProgress, MAX_BATCH_ITEMS, type Place } from './progress.ts';

type Known = Pick<DeliveryProgress, 'delivered' | 'epoch' | 'trail'>;

/** Returns the place before the first item that the receiver does not have although its number is not new. Undefined in normal operation. */
export async function rolledBackTo(store: Store, known: Known): Promise<Place | undefined> {
  const { delivered, trail = [] } = known;
  if (delivered === 0) return undefined;
  const head = await itemAfter(store, delivered - 1);
  const end = trail.at(-1);
  const isOther = end !== undefined && head?.number === end.number && isReplaced(end, head);
  if (head?.epoch === known.epoch && !isOther) return undefined;
  const places = [
    await beforeEpoch(store, known, head),
    // Before anybody noticed it, items with numbers of lost ones got the epoch of these.
    await beforeReplaced(store, known.epoch, trail),
  ].filter((place) => place !== undefined);
  return places.toSorted((one, other) => one.delivered - other.delivered)[0];
}

/** The place before the items that have another epoch, or that the log has not any more. */
async function beforeEpoch(
  store: Store,
  { delivered, epoch }: Known,
  head: NumberedItem | undefined,
): Promise<Place | undefined> {
  if (head?.epoch === epoch) return undefined;
  if (!head) {
    const last = await lastAuditNumber(store);
    return last < delivered ? placeBefore(store, last + 1, epoch) : undefined;
  }
  let first = await firstOfEpoch(store, head);
  for (;;) {
    const before = await itemAfter(store, first - 2);
    if (!before || before.number >= first || before.epoch === epoch) break;
    first = await firstOfEpoch(store, before);
  }
  return first <= delivered ? placeBefore(store, first, epoch) : undefined;
}

/** The place after the newest item of the trail before one that was replaced. */
async function beforeReplaced(
  store: Store,
  epoch: string,
  trail: readonly Delivered[],
): Promise<Place | undefined> {
  const found = await readAuditItems(
    store,
    trail.map(({ number }) => number),
  );
  const stored = new Map(found.map((one) => [one.number, one]));
  const last = await lastAuditNumber(store);
  const first = trail.findIndex(
    (each) => each.number > last || isReplaced(each, stored.get(each.number)),
  );
  if (first < 0) return undefined;
  const before = trail[first - 1]?.number ?? (trail[0]?.number ?? 0) - MAX_BATCH_ITEMS;
  return placeBefore(store, Math.max(0, before) + 1, epoch);
}

/** One that was trimmed or cannot be decrypted says nothing. */
function isReplaced({ id }: Delivered, found: NumberedItem | undefined): boolean {
  return found?.item !== undefined && (found.item.id ?? id) !== id;
}

async function itemAfter(store: Store, number: number): Promise<NumberedItem | undefined> {
  return (await readAuditAfter(store, Math.max(0, number), 1))[0];
}

async function placeBefore(store: Store, number: number, epoch: string): Promise<Place> {
  const before = await itemAfter(store, number - 2);
  const isThere = before !== undefined && before.number < number;
  return { delivered: number - 1, epoch: isThere ? before.epoch : epoch };
}

/** The number of the first item with the epoch of `known`. */
async function firstOfEpoch(store: Store, known: NumberedItem): Promise<number> {
  let [before, found] = [0, known.number];
  while (found - before > 1) {
    const middle = Math.floor((before + found) / 2);
    const item = await itemAfter(store, middle - 1);
    if (item?.epoch === known.epoch) found = middle;
    else before = middle;
  }
  // Items before it may have been trimmed.
  return (await itemAfter(store, found - 1))?.number ?? found;
}
