// How often something happened lately: counted for all processes together in Redis; with SQLite, and while Redis is away, in this one.
import { type RateLimiterAbstract, RateLimiterMemory } from 'rate-limiter-flexible';
import type { ByteStore } from './byte-store.ts';
import { openPatience } from './patience.ts';
import type { Sealer } from './seal.ts';

/** How often it happened, this time included, and in how many seconds counting begins anew. */
export type Tally = { count: number; secondsLeft: number };

/** Counts one more for `who`. Never rejects, and takes a fifth of a second at most. */
export type Counter = (who: string) => Promise<Tally>;

/** `name` keeps counters apart; `seconds`: from the first until it begins anew. */
export type OpenCounter = (name: string, seconds: number) => Counter;

const PATIENCE_MS = 200;

/** For all counters of one store; whoever is counted is hidden from who reads the store. */
export function counters(bytes: ByteStore, sealer: Sealer): OpenCounter {
  const reach = openPatience();
  return (name, seconds) => {
    const options = { keyPrefix: '', points: 1, duration: seconds };
    const local = new RateLimiterMemory(options);
    const shared = bytes.openLimiter?.(options);
    return async function count(who) {
      const key = `limit:${sealer.field(`limit:${name}`, who)}`;
      if (!shared) return oneMore(local, key);
      return reach(oneMore(shared, key), PATIENCE_MS).catch(() => oneMore(local, key));
    };
  };
}

async function oneMore(limiter: RateLimiterAbstract, key: string): Promise<Tally> {
  const { consumedPoints, msBeforeNext } = await limiter.penalty(key);
  return { count: consumedPoints, secondsLeft: msBeforeNext / 1000 };
}
