import { setTimeout as delay } from 'node:timers/promises';

/** Resolves with the first value that is neither undefined nor false. Throws after `seconds`, which only a failing test reaches. */
export async function until<T>(
  what: string,
  check: () => Promise<T | undefined | false> | T | undefined | false,
  seconds = 30,
): Promise<T> {
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    const value = await check();
    if (value !== undefined && value !== false) return value as T;
    if (performance.now() > deadline) throw new Error(`timed out after ${seconds} s: ${what}`);
    await delay(10);
  }
}
