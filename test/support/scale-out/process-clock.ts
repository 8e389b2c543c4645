// Loaded with `node --import` into a process of the tests, whose clock it sets as the parent says.
import { advanceClock, freezeClockAt, restoreClock } from '../clock.ts';

/** In seconds. A clock that was frozen runs again after `restore`. */
export type ClockChange = { freezeAt: number } | { advanceBy: number } | 'restore';

process.on('message', (change: ClockChange | { type: string }) => {
  // From the supervisor of a worker.
  if (typeof change === 'object' && 'type' in change) return;
  if (change === 'restore') restoreClock();
  else if ('freezeAt' in change) freezeClockAt(change.freezeAt);
  else advanceClock(change.advanceBy);
  process.send?.('set');
});
// The parent has gone, so nobody needs this process.
process.on('disconnect', () => process.exit());
