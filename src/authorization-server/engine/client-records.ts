// Records of registered clients and metadata documents in the store, whose TTL depends on their last use.
import type { Used } from '../../clients/stored-clients.ts';
import { cachedReader, type CachedReader, type CacheLifetimes } from '../../store/cached-reader.ts';
import { KEEP, type Store } from '../../store/store.ts';

/** In seconds. */
export type ClientLifetimes = { unusedClient: number; usedClient: number };

export type ClientRecords<T extends Used> = CachedReader<T> & {
  /** Prolongs the record, if there is one, at most once a day or once per tenth of a shorter lifetime. */
  touch: (id: string) => Promise<void>;
};

const DAY = 86_400;

export function clientRecords<T extends Used>(
  store: Store,
  keyOf: (id: string) => string,
  lifetimes: ClientLifetimes,
  { freshFor, staleIfErrorFor, now }: Required<CacheLifetimes>,
): ClientRecords<T> {
  const reader = cachedReader<T>(async (id) => (await store.get<T>(keyOf(id)))?.value, {
    freshFor,
    staleIfErrorFor,
    now,
  });
  const interval = Math.min(DAY, lifetimes.usedClient / 10);
  return {
    ...reader,
    async touch(id) {
      const known = await reader.read(id);
      if (!known || (known.usedAt !== undefined && now() - known.usedAt < interval)) return;
      await store.update<T>(keyOf(id), (record) =>
        record
          ? { value: { ...record, usedAt: Math.floor(now()) }, ttl: lifetimes.usedClient }
          : KEEP,
      );
      reader.drop(id);
    },
  };
}
