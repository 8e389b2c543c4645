// Time limits, so that a server that hangs does not prevent results of the others.
import { setTimeout as delay } from 'node:timers/promises';

/** For one check, and for one part of a round. */
export const PART_TIMEOUT_MS = 45_000;
/** No round starts after this time since the start of the command. */
export const LAST_ROUND_MS = 11 * 60_000;
/** The limit of the whole command. */
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
  // Handles a rejection after the timeout.
  acting.catch(() => undefined);
  const waiting = onTimeout();
  waiting.catch(() => undefined);
  try {
    return await Promise.race([acting, waiting]);
  } finally {
    stopped.abort();
  }
}
