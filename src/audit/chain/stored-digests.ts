// The digests of the newest items that this process stored, so that it need not read them again for a checkpoint.
import type { NumberedItem } from '../audit-log.ts';

/** The newest item of a write. While the store has it, it has all items of the write. */
export type WrittenItem = { number: number; epoch: string; id: string };

/** What a checkpoint says about an item. */
export type StoredDigest = { id: string; epoch: string; digest: string; newest: WrittenItem };

export type StoredDigests = {
  /** Others have no use for them. */
  isUsed: boolean;
  /** An item that the store does not have any more as it was written, if one was noticed. */
  lost: WrittenItem | undefined;
  add(number: number, stored: StoredDigest): void;
  get(number: number): StoredDigest | undefined;
  /** Call it for what the checkpoint before the newest one covers: a failover may lose the newest. */
  dropUpTo(number: number): void;
  clear(): void;
};

/** About 5 MB. More than a busy process stores between two looks at what a checkpoint is to cover. */
const MAX_DIGESTS = 20_000;

export function openStoredDigests(): StoredDigests {
  const digests = new Map<number, StoredDigest>();
  return {
    isUsed: false,
    lost: undefined,
    add(number, stored) {
      if (digests.size >= MAX_DIGESTS) digests.clear();
      digests.set(number, stored);
    },
    get: (number) => digests.get(number),
    dropUpTo(number) {
      // All of them, because writes may end in another order than that of their numbers.
      for (const each of digests.keys()) if (each <= number) digests.delete(each);
    },
    clear: () => digests.clear(),
  };
}

/** Whether the store lost the item: another process may have given its number again. */
export function isOther(
  { epoch, id }: { epoch: string; id?: string | undefined },
  found: NumberedItem,
): boolean {
  return found.epoch !== epoch || (found.item !== undefined && found.item.id !== id);
}
