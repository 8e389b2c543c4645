import type { RateLimiterAbstract } from 'rate-limiter-flexible';
import { lruCache } from '../lru-cache.ts';
import type { ByteStore } from './byte-store.ts';
import type { Encryption } from './encryption.ts';
import { createTimeout } from './timeout.ts';

/** The count in the current window, including this call, and the seconds until the window ends. */
export type WindowCount = { count: number; secondsLeft: number };

/** Adds `times` (default 1) to the count of `who`. Never rejects, and resolves within 0.2 s. */
export type Counter = (who: string, times?: number) => Promise<WindowCount>;

/** `name` separates counters. A window of `seconds` starts with the first count. */
export type OpenCounter = (name: string, seconds: number) => Counter;

const TIMEOUT_MS = 200;
/** Bounds memory, because a client can have any number of addresses. RateLimiterMemory has no bound. */
const MAX_IN_MEMORY = 50_000;

/** Counts for all processes in Redis, and in memory with SQLite or while Redis is unavailable. Hides `who` in the store. */
export function counters(bytes: ByteStore, encryption: Encryption, now: () => number): OpenCounter {
  const withTimeout = createTimeout();
  const locals = new Map<string, ReturnType<typeof localCounter>>();
  return (name, seconds) => {
    // Counts go on when settings are read again.
    const key = `${name} ${seconds}`;
    const local = locals.get(key) ?? localCounter(seconds, now);
    locals.set(key, local);
    const shared = bytes.openLimiter?.({ keyPrefix: '', points: 1, duration: seconds });
    if (!shared) return async (who, times) => local(who, times);
    return async function count(who, times = 1) {
      const field = `limit:${encryption.field(`limit:${name}`, who)}`;
      return withTimeout(add(shared, field, times), TIMEOUT_MS).catch(() => local(who, times));
    };
  };
}

/** Evicts the least recently counted when it is full. */
function localCounter(seconds: number, now: () => number) {
  const counts = lruCache<{ count: number; until: number }>(MAX_IN_MEMORY);
  return (who: string, times = 1): WindowCount => {
    const last = counts.get(who);
    const current = last && last.until > now() ? last : { count: 0, until: now() + seconds };
    current.count += times;
    counts.set(who, current);
    return { count: current.count, secondsLeft: current.until - now() };
  };
}

async function add(limiter: RateLimiterAbstract, key: string, times: number): Promise<WindowCount> {
  const { consumedPoints, msBeforeNext } = await limiter.penalty(key, times);
  return { count: consumedPoints, secondsLeft: msBeforeNext / 1000 };
}
