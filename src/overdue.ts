// Time limits that a busy process does not cut short.

/** A timer that comes later shows that the process was held up: what it waits for may have been sent only now. */
const LATE_MS = 50;
/** For the reply to what left the process when its time was over. */
export const LAST_REPLY_MS = 200;

/** Calls `fail` when the time is over, but not because the process was busy. `fail` may be called after the timer was cleared. */
export function whenOverdue(fail: () => void, milliseconds: number): NodeJS.Timeout {
  const due = performance.now() + milliseconds;
  // A reply may have arrived that is not read yet. Immediates run after it is read.
  const failUnlessRead = () => setImmediate(fail);
  return setTimeout(() => {
    if (performance.now() - due < LATE_MS) failUnlessRead();
    else setTimeout(failUnlessRead, LAST_REPLY_MS);
  }, milliseconds);
}
