// Records read a moment ago: fresh for seconds, dropped on notice, and good for a little longer while the store is away.
import { LRUCache } from 'lru-cache';
import { StoreUnavailable } from './store.ts';

/** All in seconds. `usableFor` counts from the last read that succeeded. */
export type Freshness = { freshFor: number; usableFor: number; now?: () => number };

export type CachedReader<T> = {
  /** Rejects with StoreUnavailable when the store is away and nothing usable was read before. */
  read(id: string): Promise<T | undefined>;
  /** Reads from the store whatever is known, and remembers it for `read`. */
  readAgain(id: string): Promise<T | undefined>;
  drop(id: string): void;
};

const MAX_ENTRIES = 10_000;
/** Bytes, estimated. */
const MAX_SIZE = 32 * 1024 * 1024;

/** What is not there is never remembered, so a record is found as soon as it is made. Parallel reads of one id share one load. */
export function cachedReader<T extends object>(
  load: (id: string) => Promise<T | undefined>,
  { freshFor, usableFor, now = () => Date.now() / 1000 }: Freshness,
): CachedReader<T> {
  const known = new LRUCache<string, { value: T; at: number }>({
    max: MAX_ENTRIES,
    maxSize: MAX_SIZE,
    sizeCalculation: ({ value }, id) => id.length + JSON.stringify(value).length,
    // This only frees memory: `at` and `now` say what is still usable.
    ttl: usableFor * 1000,
    ttlResolution: 1000,
    ttlAutopurge: true,
  });
  const loading = new Map<string, Promise<T | undefined>>();

  const start = (id: string): Promise<T | undefined> => {
    const at = now();
    const reading = load(id).then(
      (value) => {
        // A notice that came meanwhile took this read off the list: it may have seen the record before the change.
        if (loading.get(id) !== reading) return value;
        loading.delete(id);
        if (value) known.set(id, { value, at });
        else known.delete(id);
        return value;
      },
      (error: unknown) => {
        if (loading.get(id) === reading) loading.delete(id);
        throw error;
      },
    );
    loading.set(id, reading);
    return reading;
  };

  return {
    async read(id) {
      const entry = known.get(id);
      if (entry && now() - entry.at < freshFor) return entry.value;
      try {
        return await (loading.get(id) ?? start(id));
      } catch (error) {
        if (error instanceof StoreUnavailable && entry && now() - entry.at < usableFor)
          return entry.value;
        throw error;
      }
    },
    readAgain: start,
    drop(id) {
      known.delete(id);
      loading.delete(id);
    },
  };
}
