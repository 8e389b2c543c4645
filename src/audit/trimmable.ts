// Which items a trimming may remove. The index says which ones are due, but nobody signs it: an item goes only if it says the same itself.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { completedBy, numberAt, termAt, timeAt } from '../store/log-rows.ts';
import type { LogBlock, LogPart, Store } from '../store/store.ts';
import {
  auditIndex,
  isInPart,
  lastAuditNumber,
  OWNER_TERM,
  readSealedAfter,
  readSealedItems,
  timeOfRow,
} from './audit-log.ts';
import type { SealedItem } from './chain/sealed-item.ts';
import { openSignedItems, type SignedItems } from './chain/signed-items.ts';

/** A row of a block that is too old, or of which there are too many. */
export type DueRow = { index: number; isByCount: boolean };

export type TrimmableRows = {
  /** Rows to remove, and the numbers of their items. A row may have none. */
  rows: (DueRow & { numbers: number[] })[];
  /** The numbers of items that are not as their rows or their checkpoints say. */
  differing: number[];
};

/** Returns which of the due rows of a block go. */
export type Trimmable = (block: LogBlock, due: readonly DueRow[]) => Promise<TrimmableRows>;

/** `keptSince`: items of either part that are older are too old, in seconds since the epoch. */
export function openTrimmable(store: Store, part: LogPart, keptSince: number): Trimmable {
  const signed = openSignedItems(store);
  let newestOld: Promise<number> | undefined;
  /** Of an item that cannot be decrypted. */
  const isOld = async (number: number) =>
    number <= (await (newestOld ??= newestOldNumber(store, signed, keptSince)));

  return async ({ rows }, due) => {
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
      // A number that is said to be trimmed would explain why its item is missing.
      if (!items.has(number)) trimmable.rows.push({ ...row, numbers: [] });
      else if (item && !(isAsItSays(item, row) && (await signed.isAsSigned(number, item))))
        trimmable.differing.push(number);
      else if (item || (await isOld(number))) {
        const ends = await endsOf(item, end);
        if (ends) trimmable.rows.push({ ...row, numbers: [number, ...ends] });
      }
    }
    return trimmable;

    function isAsItSays(item: SealedItem, { index, isByCount }: DueRow): boolean {
      if (timeOfRow(item) !== timeAt(rows, index) || !isInPart(item, part)) return false;
      const owner = auditIndex.terms(store, item)[OWNER_TERM];
      return !isByCount || owner === termAt(rows, index, OWNER_TERM);
    }
    /** The end that goes with a call, if it is one. Undefined if it may be one and is not old. */
    async function endsOf(
      call: SealedItem | undefined,
      end: number,
    ): Promise<number[] | undefined> {
      if (!items.has(end)) return [];
      const item = items.get(end);
      if (!item) return (await isOld(end)) ? [end] : undefined;
      const isEnd =
        item.event === 'call_ended' &&
        (call ? item.call === call.id : timeOfRow(item) < keptSince) &&
        (await signed.isAsSigned(end, item));
      return isEnd ? [end] : [];
    }
  };
}

const READ_AHEAD = 20;

/** The highest number of an item that is too old, so that those below it are too, also if they cannot be decrypted. 0 if there is none. */
async function newestOldNumber(
  store: Store,
  signed: SignedItems,
  keptSince: number,
): Promise<number> {
  const last = await lastAuditNumber(store);
  let newest = 0;
  // What cannot be decrypted may be old or not, so it is searched on either side of it.
  for (const isUnreadableOld of [true, false]) {
    let [before, above] = [0, last + 1];
    while (above - before > 1) {
      const middle = Math.floor((before + above) / 2);
      await nextTurn();
      const page = await readSealedAfter(store, middle - 1, READ_AHEAD);
      let one: { number: number; time: number } | undefined;
      for (const { number, item } of page)
        if (!one && item && (await signed.isAsSigned(number, item)))
          one = { number, time: timeOfRow(item) };
      const isOld = one ? one.time < keptSince : page.length > 0 && isUnreadableOld;
      if (one && isOld) newest = Math.max(newest, one.number);
      if (isOld) before = Math.min(Math.max(middle, one?.number ?? 0), above - 1);
      else above = middle;
    }
  }
  return newest;
}
