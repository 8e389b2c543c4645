// Spreads the work on large messages over the turns of the event loop, so that other requests are served in between.
import { setImmediate as nextImmediate } from 'node:timers/promises';

/** Larger messages take turns, because nothing else runs while one is parsed. */
const LARGE_BYTES = 64 * 1024;

/** Resolves for one large message in each turn; undefined for a small one. */
export const nextTurn = turns();
/** The same for parts of bodies that are read and discarded. These do not delay messages that are parsed. */
export const nextTurnToDiscard = turns();

function turns(): (bytes: number) => Promise<unknown> | undefined {
  let last: Promise<unknown> = Promise.resolve();
  return (bytes) => {
    if (bytes <= LARGE_BYTES) return undefined;
    last = last.then(() => nextImmediate());
    return last;
  };
}
