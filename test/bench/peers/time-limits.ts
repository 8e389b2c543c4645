// Time limits of the comparison, so that a server that hangs does not prevent the result of the others.
import { setTimeout as delay } from 'node:timers/promises';

/** Of one question, and of one part of a round of one server. */
export const PART_TIMEOUT_MS = 45_000;
/** No round begins after that; seconds since the command began are what `performance.now` counts. */
export const LAST_ROUND_MS = 11 * 60_000;
/** The last resort. */
export const MAX_RUN_MS = 15 * 60_000;

/** Settles as `act` does, or rejects after `milliseconds`. */
export async function withTimeout<Result>(
  milliseconds: number,
  act: () => Promise<Result>,
): Promise<Result> {
  const stopped = new AbortController();
  const onTimeout = async () => {
    await delay(milliseconds, undefined, { signal: stopped.signal });
    throw new Error(`not done within ${milliseconds / 1000} s`);
  };
  const acting = act();
  // It may still fail when nobody waits for it any more.
  acting.catch(() => undefined);
  const waiting = onTimeout();
  waiting.catch(() => undefined);
  try {
    return await Promise.race([acting, waiting]);
  } finally {
    stopped.abort();
  }
}
