import { LRUCache } from 'lru-cache';
import { StoreUnavailable } from './store.ts';

/** Both in seconds since the last successful read began. `now` is in seconds. */
export type CacheLifetimes = {
  /** A record younger than this is returned without reading the store. */
  freshFor: number;
  /** A record younger than this is returned when the store is unavailable. */
  staleIfErrorFor: number;
  now?: () => number;
};

export type CachedReader<T> = {
  /** A record that is fresh in the cache, without a wait. */
  cached(id: string): T | undefined;
  /** Concurrent reads of one id share one load. Rejects with StoreUnavailable when no usable record is cached. */
  read(id: string): Promise<T | undefined>;
  /** Loads the record even if it is cached or being loaded, and caches the result. */
  refresh(id: string): Promise<T | undefined>;
  /** Caches what the caller has just written. */
  put(id: string, value: T): void;
  /** Removes the record. The result of a load that is in progress is not cached. */
  drop(id: string): void;
};

/** Estimated. */
const MAX_BYTES = 32 * 1024 * 1024;
/** What an entry takes besides its text, so that small records have a bound too. */
const ENTRY_BYTES = 1000;

type Entry<T> = { value: T | undefined; at: number };

/** Caches only records that exist, so that a new record is found at once. */
export function cachedReader<T extends object>(
  load: (id: string) => Promise<T | undefined>,
  { freshFor, staleIfErrorFor, now = () => Date.now() / 1000 }: CacheLifetimes,
): CachedReader<T> {
  const isYounger = ({ at }: Entry<T>, seconds: number) => now() - at < seconds;
  const cache = new LRUCache<string, Entry<T>>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ value }, id) =>
      ENTRY_BYTES + id.length + (JSON.stringify(value)?.length ?? 0),
    // Frees memory only. `at` and `now` decide what is usable.
    ttl: staleIfErrorFor * 1000,
    ttlResolution: 1000,
    ttlAutopurge: true,
    // A record that is dropped while it is loaded is returned to those who wait for it, and not cached.
    ignoreFetchAbort: true,
    noDeleteOnFetchRejection: true,
    async fetchMethod(id, known, { options, signal }) {
      const at = now();
      try {
        return { value: await load(id), at };
      } catch (error) {
        options.allowStaleOnFetchRejection =
          error instanceof StoreUnavailable &&
          known !== undefined &&
          isYounger(known, staleIfErrorFor) &&
          !signal.aborted;
        throw error;
      }
    },
  });

  const fetch = async (id: string): Promise<T | undefined> => {
    const entry = await cache.fetch(id, { forceRefresh: true });
    if (entry?.value === undefined && cache.peek(id) === entry) cache.delete(id);
    return entry?.value;
  };

  const cached = (id: string) => {
    const entry = cache.get(id);
    return entry && isYounger(entry, freshFor) ? entry.value : undefined;
  };
  return {
    cached,
    read: async (id) => cached(id) ?? fetch(id),
    refresh(id) {
      cache.delete(id);
      return fetch(id);
    },
    put: (id, value) => void cache.set(id, { value, at: now() }),
    drop: (id) => void cache.delete(id),
  };
}
