/**
 * Items that are added and removed all the time, in no order. A Set is slower here: each table that it outgrows refers to the next one, so that
 * garbage collections keep the items of all tables until the next full one.
 */
export type TransientItems<T> = Iterable<T> & {
  add(item: T): TransientItem<T>;
  /** Returns false if it was removed before. */
  remove(added: TransientItem<T>): boolean;
};

export type TransientItem<T> = { readonly item: T; index: number };

export function transientItems<T>(): TransientItems<T> {
  const entries: TransientItem<T>[] = [];
  return {
    add(item) {
      const entry = { item, index: entries.length };
      entries.push(entry);
      return entry;
    },
    remove(entry) {
      if (entry.index < 0) return false;
      const last = entries.pop();
      if (last !== undefined && last !== entry) {
        entries[entry.index] = last;
        last.index = entry.index;
      }
      entry.index = -1;
      return true;
    },
    *[Symbol.iterator]() {
      // A copy, because items may be removed meanwhile.
      yield* entries.map(({ item }) => item);
    },
  };
}
