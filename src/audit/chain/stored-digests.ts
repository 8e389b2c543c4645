// The digests of the newest items that this process stored, so that it need not read them again for a checkpoint.
import type { NumberedItem } from '../audit-log.ts';

/** The newest item of a write. While the store has it, it has all items of the write. */
export type WrittenItem = { number: number; epoch: string; id: string };

/** What a checkpoint says about the items of one write, from the number `first` on. */
export type StoredWrite = {
  first: number;
  epoch: string;
  ids: readonly string[];
  digests: readonly string[];
};

/** What a checkpoint says about an item. */
export type StoredDigest = { id: string; epoch: string; digest: string; newest: WrittenItem };

export type StoredDigests = {
  /** Others have no use for them. */
  isUsed: boolean;
  /** An item that the store does not have any more as it was written, if one was noticed. */
  lost: WrittenItem | undefined;
  add(write: StoredWrite): void;
  get(number: number): StoredDigest | undefined;
  /** Call it for what the checkpoint before the newest one covers: a failover may lose the newest. Writes are dropped as a whole. */
  dropUpTo(number: number): void;
  clear(): void;
};

/** Of items: about 3 MB. More than a busy process stores between two looks at what a checkpoint is to cover. */
const MAX_DIGESTS = 20_000;

export function openStoredDigests(): StoredDigests {
  /** In the order of their numbers, of which each is in one write. */
  let writes: StoredWrite[] = [];
  let count = 0;
  /** The index behind the last write that begins at the number or below it. */
  const behind = (number: number) => {
    let [low, high] = [0, writes.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((writes[middle]?.first ?? 0) <= number) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const clear = () => {
    writes = [];
    count = 0;
  };
  return {
    isUsed: false,
    lost: undefined,
    add(write) {
      if (count >= MAX_DIGESTS) clear();
      // Writes may end in another order than that of their numbers, and a log that lost its end gives numbers again.
      const last = lastOf(write);
      const from = behind(write.first - 1);
      const before = writes[from - 1];
      const begin = before && lastOf(before) >= write.first ? from - 1 : from;
      const replaced = writes.splice(begin, behind(last) - begin, write);
      count += itemsIn([write]) - itemsIn(replaced);
    },
    get(number) {
      const write = writes[behind(number) - 1];
      const [id, digest] = [write?.ids[number - write.first], write?.digests[number - write.first]];
      if (!write || id === undefined || digest === undefined) return undefined;
      const { epoch } = write;
      const newest = { number: lastOf(write), epoch, id: write.ids.at(-1) ?? '' };
      return { id, epoch, digest, newest };
    },
    dropUpTo(number) {
      writes = writes.filter((write) => lastOf(write) > number);
      count = itemsIn(writes);
    },
    clear,
  };
}

function itemsIn(writes: readonly StoredWrite[]): number {
  return writes.reduce((sum, { ids }) => sum + ids.length, 0);
}

function lastOf({ first, ids }: StoredWrite): number {
  return first + ids.length - 1;
}

/** Whether the store lost the item: another process may have given its number again. */
export function isOther(
  { epoch, id }: { epoch: string; id?: string | undefined },
  found: NumberedItem,
): boolean {
  return found.epoch !== epoch || (found.item !== undefined && found.item.id !== id);
}
