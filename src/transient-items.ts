/**
 * Items that are added and removed all the time, in no order. A Set is slower here: each table that it outgrows refers to the next one, so that
 * garbage collections keep the items of all tables until the next full one.
 */
export type TransientItems<T> = Iterable<T> & {
  /** Returns the function that removes the item. It returns false if it did so before. */
  add(item: T): () => boolean;
};

export function transientItems<T>(): TransientItems<T> {
  const entries: { item: T; index: number }[] = [];
  return {
    add(item) {
      const entry = { item, index: entries.length };
      entries.push(entry);
      return () => {
        if (entry.index < 0) return false;
        const last = entries.pop();
        if (last !== undefined && last !== entry) {
          entries[entry.index] = last;
          last.index = entry.index;
        }
        entry.index = -1;
        return true;
      };
    },
    *[Symbol.iterator]() {
      // A copy, because items may be removed meanwhile.
      yield* entries.map(({ item }) => item);
    },
  };
}
