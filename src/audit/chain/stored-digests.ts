// The digests of the newest items that this process stored, so that it need not read them again for a checkpoint.

/** What a checkpoint says about an item. */
export type StoredDigest = { id: string; epoch: string; digest: string };

export type StoredDigests = {
  /** Others have no use for them. */
  isUsed: boolean;
  add(number: number, stored: StoredDigest): void;
  get(number: number): StoredDigest | undefined;
  clear(): void;
};

const MAX_DIGESTS = 5000;

export function openStoredDigests(): StoredDigests {
  const digests = new Map<number, StoredDigest>();
  return {
    isUsed: false,
    add(number, stored) {
      // A checkpoint covers fewer, so that the oldest ones are of no use then.
      if (digests.size >= MAX_DIGESTS) digests.clear();
      digests.set(number, stored);
    },
    get: (number) => digests.get(number),
    clear: () => digests.clear(),
  };
}
