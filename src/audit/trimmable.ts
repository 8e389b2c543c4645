// Which items a trimming may remove. The index says which ones are due, but nobody signs it: an item goes only if it says the same itself.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { completedBy, numberAt, termAt, timeAt } from '../store/log-rows.ts';
import type { LogBlock, LogPart, Store } from '../store/store.ts';
import {
  auditIndex,
  isInPart,
  OWNER_TERM,
  readSealedAfter,
  readSealedItems,
  timeOfRow,
} from './audit-log.ts';
import type { SealedItem } from './chain/sealed-item.ts';

/** A row of a block that is too old, or of which there are too many. */
export type DueRow = { index: number; isByCount: boolean };

export type TrimmableRows = {
  /** Rows to remove, and the numbers of their items. A row may have none. */
  rows: (DueRow & { numbers: number[] })[];
  /** The numbers of items that are not as their rows say. */
  differing: number[];
};

/** `bound`: what is older is too old, in seconds since the epoch. */
export async function trimmableRows(
  store: Store,
  part: LogPart,
  { rows }: LogBlock,
  { due, bound }: { due: readonly DueRow[]; bound: number },
): Promise<TrimmableRows> {
  // Reading and decrypting a block takes milliseconds.
  await nextTurn();
  const numbers = due.flatMap(({ index }) => [numberAt(rows, index), completedBy(rows, index)]);
  const found = await readSealedItems(
    store,
    numbers.filter((number) => number > 0),
  );
  const items = new Map(found.map(({ number, item }) => [number, item]));
  const trimmable: TrimmableRows = { rows: [], differing: [] };
  for (const row of due) {
    const [number, end] = [numberAt(rows, row.index), completedBy(rows, row.index)];
    const item = items.get(number);
    const isDue = await isOrIsOld(number, row, (one) => isAsItSays(one, row));
    const isEnd = !items.has(end) || (await isOrIsOld(end, row, (one) => isEndOf(one, item)));
    // A number that is said to be trimmed would explain why its item is missing.
    if (!items.has(number)) trimmable.rows.push({ ...row, numbers: [] });
    else if (isDue && isEnd)
      trimmable.rows.push({ ...row, numbers: items.has(end) ? [number, end] : [number] });
    else if (item) trimmable.differing.push(number);
  }
  return trimmable;

  /** One that cannot be decrypted is not of those that are too many. */
  async function isOrIsOld(
    number: number,
    { isByCount }: DueRow,
    is: (item: SealedItem) => boolean,
  ): Promise<boolean> {
    const item = items.get(number);
    if (item) return is(item);
    return items.has(number) && !isByCount && (await isBeforeOld(store, number, bound));
  }
  function isAsItSays(item: SealedItem, { index, isByCount }: DueRow): boolean {
    if (timeOfRow(item) !== timeAt(rows, index) || !isInPart(item, part)) return false;
    const owner = auditIndex.terms(store, item)[OWNER_TERM];
    return !isByCount || owner === termAt(rows, index, OWNER_TERM);
  }
  function isEndOf(end: SealedItem, call: SealedItem | undefined): boolean {
    return end.event === 'call_ended' && (call ? end.call === call.id : timeOfRow(end) < bound);
  }
}

const READ_AHEAD = 100;

/** Whether an item that cannot be decrypted is older than one that is too old. */
async function isBeforeOld(store: Store, number: number, bound: number): Promise<boolean> {
  const later = await readSealedAfter(store, number, READ_AHEAD);
  return later.some(({ item }) => item !== undefined && timeOfRow(item) < bound);
}
