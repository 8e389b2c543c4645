// What checkpoints say about items by their number, for a reader that goes through many of them.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Store } from '../../store/store.ts';
import {
  type ListedCheckpoint,
  markedCheckpoint,
  oldestList,
  readCheckpointMark,
  readList,
} from './checkpoint-lists.ts';
import { itemDigest, type SealedItem } from './sealed-item.ts';

export type SignedItems = {
  /**
   * Whether the item with the number is as a checkpoint signed it. Also true if none says anything about the number: it is newer than the newest
   * checkpoint or older than the oldest list, or could not be read when the checkpoint was made.
   */
  isAsSigned(number: number, item: SealedItem): Promise<boolean>;
};

/** Lists that are missing between others, after which no list is looked for. */
const MAX_MISSING = 100;

/** Keeps one list, while the numbers are in it. */
export function openSignedItems(store: Store): SignedItems {
  let range: Promise<{ oldest: number; newest: number; last: number }> | undefined;
  let current: ListedCheckpoint | undefined;
  /** By checkpoint: its last number. */
  const lastNumbers = new Map<number, number | undefined>();

  const read = async (checkpoint: number) => {
    // SQLite answers at once.
    await nextTurn();
    const listed = await readList(store, checkpoint);
    lastNumbers.set(checkpoint, listed?.checkpoint.last.number);
    return listed;
  };
  const lastOf = async (checkpoint: number) =>
    lastNumbers.has(checkpoint)
      ? lastNumbers.get(checkpoint)
      : (await read(checkpoint))?.checkpoint.last.number;
  /** The first checkpoint whose last number is not below this one. */
  const find = async (number: number, oldest: number, newest: number) => {
    let found: number | undefined;
    let [below, above] = [oldest - 1, newest + 1];
    while (above - below > 1) {
      const middle = Math.floor((below + above) / 2);
      let [listed, last] = [middle, await lastOf(middle)];
      const end = Math.min(above, middle + MAX_MISSING);
      while (last === undefined && listed + 1 < end) last = await lastOf(++listed);
      if (last !== undefined && last < number) below = listed;
      else {
        if (last !== undefined) found = listed;
        above = middle;
      }
    }
    return found;
  };
  const covers = (listed: ListedCheckpoint | undefined, number: number) =>
    listed !== undefined &&
    listed.checkpoint.first.number <= number &&
    number <= listed.checkpoint.last.number;

  return {
    async isAsSigned(number, item) {
      range ??= rangeOf(store);
      const { oldest, newest, last } = await range;
      if (number > last) return true;
      const next = (current?.checkpoint.checkpoint ?? newest) + 1;
      if (!covers(current, number) && next <= newest) current = await read(next);
      if (!covers(current, number)) {
        const found = await find(number, oldest, newest);
        current = found === undefined ? undefined : await read(found);
        if (found === oldest && current && number < current.checkpoint.first.number) return true;
      }
      if (!current || !covers(current, number)) return false;
      const { checkpoint, list } = current;
      const index = number - checkpoint.first.number;
      const [id, digest] = [list.ids[index], list.digests[index]];
      return id === '' || (id === item.id && digest === digestOf(item));
    },
  };
}

function digestOf(item: SealedItem): string | undefined {
  try {
    return itemDigest(item);
  } catch {
    return undefined;
  }
}

async function rangeOf(store: Store): Promise<{ oldest: number; newest: number; last: number }> {
  const mark = await readCheckpointMark(store);
  if (!mark) return { oldest: 0, newest: 0, last: 0 };
  const newest = mark.checkpoint;
  const last = (await markedCheckpoint(store, mark))?.checkpoint.last.number ?? Infinity;
  return { oldest: await oldestList(store, newest), newest, last };
}
