// Time limits for the parts of the comparison, so that one server that hangs does not take the result of all others with it.
import { setTimeout as delay } from 'node:timers/promises';

/** Of one question, and of one part of a round of one server. */
export const PART_MS = 45_000;
/** No round begins after that; seconds since the command began are what `performance.now` counts. */
export const ROUNDS_MS = 11 * 60_000;
/** The last resort. */
export const LONGEST_MS = 15 * 60_000;

/** What `act` comes to, or an error when that takes longer than `milliseconds`. */
export async function within<Result>(
  milliseconds: number,
  act: () => Promise<Result>,
): Promise<Result> {
  const stopped = new AbortController();
  const tooLate = async () => {
    await delay(milliseconds, undefined, { signal: stopped.signal });
    throw new Error(`not done within ${milliseconds / 1000} s`);
  };
  const acting = act();
  // It may still fail when nobody waits for it any more.
  acting.catch(() => undefined);
  const waiting = tooLate();
  waiting.catch(() => undefined);
  try {
    return await Promise.race([acting, waiting]);
  } finally {
    stopped.abort();
  }
}
