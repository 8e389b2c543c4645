// The clock of this process, moved by tests: server and client run in one process, so both see the same time.

const RealDate = Date;
let shift = 0;

const MovedDate = new Proxy(RealDate, {
  apply: () => new MovedDate().toString(),
  construct: (target, given, newTarget) =>
    Reflect.construct(target, given.length > 0 ? given : [target.now() + shift], newTarget),
  get: (target, name) =>
    name === 'now' ? () => target.now() + shift : Reflect.get(target, name, target),
});

/** Adds seconds to what `Date` says; timers are not moved. */
export function moveClock(seconds: number): void {
  shift += seconds * 1000;
  globalThis.Date = MovedDate;
}

export function restoreClock(): void {
  shift = 0;
  globalThis.Date = RealDate;
}
