// A clock that leaps ahead would end every item at once.
import type { Store } from '../store/store.ts';
import { lastAuditNumber, readAuditAfter } from './audit-log.ts';

export type ClockGuard = {
  /** Whether the clock has leapt ahead within the last hour. After an hour, it is believed. */
  hasLeapt(services: { store: Store; now: () => number }): Promise<boolean>;
};

const MAX_LEAP_SECONDS = 3600;
/** A running process adds a checkpoint every day. */
const MAX_IDLE_SECONDS = 2 * 86_400;

/** One for a process: it compares its first reading with the log, and each later one with the reading before. `elapsed` is a clock that nobody sets, in seconds. */
export function openClockGuard(elapsed = () => performance.now() / 1000): ClockGuard {
  const hasLeapt = leapDetector();
  let isFirst = true;
  return {
    async hasLeapt({ store, now }) {
      if (isFirst) {
        const stored = await newestBefore(store, now() - MAX_LEAP_SECONDS);
        // Later items may have the time of a clock that had leapt.
        if (stored !== undefined) hasLeapt(stored + MAX_IDLE_SECONDS - MAX_LEAP_SECONDS, elapsed());
        isFirst = false;
      }
      return hasLeapt(now(), elapsed());
    },
  };
}

/** Both times are in seconds, and `elapsed` is that of a clock that nobody sets. */
export function leapDetector(): (clock: number, elapsed: number) => boolean {
  let last: { clock: number; elapsed: number } | undefined;
  let leaptAt = -Infinity;
  return (clock, elapsed) => {
    if (last && clock - last.clock > elapsed - last.elapsed + MAX_LEAP_SECONDS) leaptAt = elapsed;
    last = { clock, elapsed };
    return elapsed - leaptAt < MAX_LEAP_SECONDS;
  };
}

/** The time of the newest item that is older than `time`. Undefined if there is none. */
async function newestBefore(store: Store, time: number): Promise<number | undefined> {
  let newest: number | undefined;
  let [before, found] = [0, (await lastAuditNumber(store)) + 1];
  while (found - before > 1) {
    const middle = Math.floor((before + found) / 2);
    const [next] = await readAuditAfter(store, middle - 1, 1);
    const at = next?.item ? Date.parse(next.item.time) / 1000 : Infinity;
    if (next && at < time) {
      newest = at;
      before = Math.min(next.number, found - 1);
    } else found = middle;
  }
  return newest;
}
