// How often something happened lately: counted for all processes together in Redis; with SQLite, and while Redis is away, in this one.
import { LRUCache } from 'lru-cache';
import type { RateLimiterAbstract } from 'rate-limiter-flexible';
import type { ByteStore } from './byte-store.ts';
import { createTimeout } from './timeout.ts';
import type { Encryption } from './encryption.ts';

/** How often it happened, this time included, and in how many seconds counting begins anew. */
export type Tally = { count: number; secondsLeft: number };

/** Counts one more for `who`, or so many. Never rejects, and takes a fifth of a second at most. */
export type Counter = (who: string, times?: number) => Promise<Tally>;

/** `name` keeps counters apart; `seconds`: from the first until it begins anew. */
export type OpenCounter = (name: string, seconds: number) => Counter;

const COUNT_TIMEOUT_MS = 200;
/** Strangers have as many addresses as they like, and memory is ours. */
const MOST_IN_MEMORY = 50_000;

/** For all counters of one store; whoever is counted is hidden from who reads the store. */
export function counters(bytes: ByteStore, encryption: Encryption, now: () => number): OpenCounter {
  const withTimeout = createTimeout();
  return (name, seconds) => {
    const local = localCounter(seconds, now);
    const shared = bytes.openLimiter?.({ keyPrefix: '', points: 1, duration: seconds });
    if (!shared) return async (who, times) => local(who, times);
    return async function count(who, times = 1) {
      const key = `limit:${encryption.field(`limit:${name}`, who)}`;
      return withTimeout(add(shared, key, times), COUNT_TIMEOUT_MS).catch(() => local(who, times));
    };
  };
}

/** Of more than it holds, those who were not counted for longest begin anew. */
function localCounter(seconds: number, now: () => number) {
  const counts = new LRUCache<string, { count: number; until: number }>({ max: MOST_IN_MEMORY });
  return (who: string, times = 1): Tally => {
    const last = counts.get(who);
    const current = last && last.until > now() ? last : { count: 0, until: now() + seconds };
    current.count += times;
    counts.set(who, current);
    return { count: current.count, secondsLeft: current.until - now() };
  };
}

async function add(limiter: RateLimiterAbstract, key: string, times: number): Promise<Tally> {
  const { consumedPoints, msBeforeNext } = await limiter.penalty(key, times);
  return { count: consumedPoints, secondsLeft: msBeforeNext / 1000 };
}
