const RealDate = Date;
let offsetMs = 0;
let frozenMs: number | undefined;

const TestDate = dateReading(() => frozenMs ?? RealDate.now() + offsetMs);

/**
 * Moves this process's clock forward. A stopped clock stays stopped. Servers under test run in this process, so they see the same time. Timers are
 * not affected.
 */
export function advanceClock(seconds: number): void {
  if (frozenMs === undefined) offsetMs += seconds * 1000;
  else frozenMs += seconds * 1000;
  globalThis.Date = TestDate;
}

/** Stops this process's clock at `seconds` since the epoch. Timers are not affected. */
export function freezeClockAt(seconds: number): void {
  frozenMs = seconds * 1000;
  globalThis.Date = TestDate;
}

/** Stops this process's clock at the current whole second and returns it, in seconds since the epoch. */
export function freezeClock(): number {
  const now = Math.floor(RealDate.now() / 1000);
  freezeClockAt(now);
  return now;
}

export function restoreClock(): void {
  offsetMs = 0;
  frozenMs = undefined;
  globalThis.Date = RealDate;
}

/** A `Date` whose current time is `now()`, in milliseconds since the epoch. */
function dateReading(now: () => number): DateConstructor {
  const ReadingDate: DateConstructor = new Proxy(RealDate, {
    apply: () => new ReadingDate().toString(),
    construct: (target, args, newTarget) =>
      Reflect.construct(target, args.length > 0 ? args : [now()], newTarget),
    get: (target, name) => (name === 'now' ? now : Reflect.get(target, name, target)),
  });
  return ReadingDate;
}
