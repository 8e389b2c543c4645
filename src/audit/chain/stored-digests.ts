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
  clear(): void;
};

const MAX_DIGESTS = 5000;

export function openStoredDigests(): StoredDigests {
  const digests = new Map<number, StoredDigest>();
  return {
    isUsed: false,
    lost: undefined,
    add(number, stored) {
      // A checkpoint covers fewer, so that the oldest ones are of no use then.
      if (digests.size >= MAX_DIGESTS) digests.clear();
      digests.set(number, stored);
    },
    get: (number) => digests.get(number),
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
