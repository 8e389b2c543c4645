import { LRUCache } from 'lru-cache';

/**
 * Keeps at most `max` entries, or what has this size, and evicts the least recently used. Memory grows with the entries: with its own `max`, the library allocates for
 * all of them at once, which for the counters together takes 20 MB and a tenth of a second at every start.
 */
export function lruCache<V extends object | string | number | true>(
  max: number,
  sizeOf: (value: V) => number = () => 1,
): LRUCache<string, V> {
  return new LRUCache({ maxSize: max, sizeCalculation: sizeOf });
}
