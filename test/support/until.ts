import { setTimeout as delay } from 'node:timers/promises';

/** A check can cost as much as what it waits for, so that a long wait checks less often. */
const MIN_DELAY_MS = 10;
const MAX_DELAY_MS = 100;

/** Resolves with the first value that is neither undefined nor false. Throws after `seconds`, which only a failing test reaches. */
export async function until<T>(
  what: string,
  check: () => Promise<T | undefined | false> | T | undefined | false,
  seconds = 50,
): Promise<T> {
  const started = performance.now();
  for (;;) {
    const value = await check();
    if (value !== undefined && value !== false) return value as T;
    const waited = performance.now() - started;
    if (waited > seconds * 1000) throw new Error(`timed out after ${seconds} s: ${what}`);
    await delay(Math.min(Math.max(waited / 10, MIN_DELAY_MS), MAX_DELAY_MS));
  }
}
