// After the log was restored from a backup, or lost its newest items in a failover, the numbers of lost items are given again, in a new epoch.
import type { Store } from '../../store/store.ts';
import { lastAuditNumber, readAuditAfter } from '../audit-log.ts';
import type { Place } from './progress.ts';

/** Returns the place before the first item that the receiver does not have although its number is not new. Undefined in normal operation. */
export async function rolledBackTo(
  store: Store,
  { delivered, epoch }: Place,
): Promise<Place | undefined> {
  if (delivered === 0) return undefined;
  const head = await itemAfter(store, delivered - 1);
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

type Numbered = { number: number; epoch: string };

async function itemAfter(store: Store, number: number): Promise<Numbered | undefined> {
  return (await readAuditAfter(store, Math.max(0, number), 1))[0];
}

async function placeBefore(store: Store, number: number, epoch: string): Promise<Place> {
  const before = await itemAfter(store, number - 2);
  const isThere = before !== undefined && before.number < number;
  return { delivered: number - 1, epoch: isThere ? before.epoch : epoch };
}

/** The number of the first item with the epoch of `known`. */
async function firstOfEpoch(store: Store, known: Numbered): Promise<number> {
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
