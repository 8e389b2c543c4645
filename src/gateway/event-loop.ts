// Spreads the work on large messages over the turns of the event loop.
import { setImmediate as nextImmediate } from 'node:timers/promises';

/** Larger messages take turns, because nothing else runs while one is parsed. */
const LARGE_BYTES = 64 * 1024;
let lastTurn: Promise<unknown> = Promise.resolve();

/** Resolves for one large message in each turn of the event loop, so that other requests are served in between. */
export function nextTurn(bytes: number): Promise<unknown> | undefined {
  if (bytes <= LARGE_BYTES) return undefined;
  lastTurn = lastTurn.then(() => nextImmediate());
  return lastTurn;
}
