// A clock of this process that stands still until it is set, for what must hold to the second; `restoreClock` lets it go again.

const RealDate = Date;

/** `seconds` since the epoch. Timers are not stopped. */
export function setClock(seconds: number): void {
  const moment = seconds * 1000;
  const StoppedDate: DateConstructor = new Proxy(RealDate, {
    apply: () => new StoppedDate().toString(),
    construct: (target, given, newTarget) =>
      Reflect.construct(target, given.length > 0 ? given : [moment], newTarget),
    get: (target, name) => (name === 'now' ? () => moment : Reflect.get(target, name, target)),
  });
  globalThis.Date = StoppedDate;
}

/** At the whole second that has begun; returns it, in seconds since the epoch. */
export function stopClock(): number {
  const now = Math.floor(RealDate.now() / 1000);
  setClock(now);
  return now;
}
