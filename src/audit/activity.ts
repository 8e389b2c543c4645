// Counts what happens, for the overview of the console: calls, refusals, connections. Processes share one record for each day.
import { auditEvents, refusalReasons } from '../observability/labels.ts';
import type { Metrics } from '../observability/metrics.ts';
import { isLevel, type Levels } from '../permission-levels.ts';
import type { Store } from '../store/store.ts';

/** As in the audit log, which says `answered` for `done`: also a call whose tool says in its result that it failed. */
export const CALL_OUTCOMES = ['done', 'refused', 'failed'] as const;
export type CallOutcome = (typeof CALL_OUTCOMES)[number];

export type Activity = {
  /** Counts calls of tools with a permission level. */
  calls: (level: string, outcome: CallOutcome, count: number) => void;
  refused: (reason: string) => void;
  event: (name: string, count?: number) => void;
  /** Resolves after the last write. Never rejects. */
  close: () => Promise<void>;
};

/** Numbers by counter: `call <level> <outcome>`, `refused <error code>`, `event <audit event>`. */
export type Counts = Record<string, number>;
/** The counts of a day, by the hour of its beginning (UTC, 0 to 23). */
type DayRecord = Record<string, Counts>;

const HOUR = 3600;
const DAY = 24 * HOUR;
const RETENTION_SECONDS = 35 * DAY;
const FLUSH_MS = 2000;
/** While the store is unavailable, at most this many hours wait. */
const MAX_HOURS = 48;
/** Normal steps of every client, and what scanners ask for. */
const NOT_COUNTED = new Set(['token_required', 'client_gone', 'not_found', 'method_not_allowed']);

const dayKey = (day: number) => `activity:${day}`;

export type ActivityOptions = {
  store: Store;
  /** Those of the settings in force. */
  levels: () => Levels;
  now: () => number;
  onError: (error: unknown) => void;
};

/**
 * Writes every few seconds, if anything was counted. If the process stops without `close`, the counts of these seconds are lost. Other names than
 * those of the closed lists are counted as `other`, so that the records stay small.
 */
export function openActivity({ store, levels, now, onError }: ActivityOptions): Activity {
  const known = {
    reason: set(refusalReasons),
    event: set(auditEvents),
  };
  let waiting = new Map<number, Counts>();
  let writing: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const count = (counter: string, by = 1) => {
    const hour = Math.floor(now() / HOUR);
    const counts = waiting.get(hour) ?? {};
    counts[counter] = (counts[counter] ?? 0) + by;
    waiting.set(hour, counts);
    timer ??= setTimeout(() => void flush(), FLUSH_MS).unref();
  };
  const write = async () => {
    const taken = waiting;
    waiting = new Map();
    const days = Map.groupBy(taken, ([hour]) => Math.floor((hour * HOUR) / DAY));
    for (const [day, hours] of days)
      await addToDay(store, day, hours).catch((error: unknown) => {
        onError(error);
        for (const [hour, counts] of hours) waiting.set(hour, sum(waiting.get(hour), counts));
      });
    waiting = new Map([...waiting].toSorted(([one], [other]) => one - other).slice(-MAX_HOURS));
  };
  const flush = async () => {
    clearTimeout(timer);
    timer = undefined;
    await writing;
    writing = write();
    await writing;
    if (waiting.size > 0) timer ??= setTimeout(() => void flush(), FLUSH_MS).unref();
  };
  return {
    calls: (level, outcome, by) =>
      count(`call ${isLevel(levels(), level) ? level : 'other'} ${outcome}`, by),
    refused: (reason) => {
      if (!NOT_COUNTED.has(reason)) count(`refused ${known.reason.has(reason) ? reason : 'other'}`);
    },
    event: (name, by) => count(`event ${known.event.has(name) ? name : 'other'}`, by),
    async close() {
      await flush();
      clearTimeout(timer);
    },
  };
}

function set(names: readonly string[]): ReadonlySet<string> {
  return new Set(names);
}

async function addToDay(
  store: Store,
  day: number,
  hours: readonly (readonly [number, Counts])[],
): Promise<void> {
  await store.update<DayRecord>(dayKey(day), (current = {}) => {
    const added = hours.map(([hour, counts]) => {
      const name = String(hour - (day * DAY) / HOUR);
      return [name, sum(current[name], counts)] as const;
    });
    return { value: { ...current, ...Object.fromEntries(added) }, ttl: RETENTION_SECONDS };
  });
}

function sum(one: Counts = {}, other: Counts = {}): Counts {
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return Object.fromEntries(
    [...names].map((name) => [name, (one[name] ?? 0) + (other[name] ?? 0)]),
  );
}

/** The counts of one hour or day that begins at `at` (seconds since the epoch). */
export type Period = { at: number; counts: Counts };

/** Returns the last 24 hours, and the last `days` days (UTC) including today. Oldest first. */
export async function readActivity(
  store: Store,
  days: number,
  now: number,
): Promise<{ hours: Period[]; days: Period[] }> {
  const today = Math.floor(now / DAY);
  const numbers = Array.from({ length: days }, (_, n) => today - days + 1 + n);
  const records = await store.getMany<DayRecord>(numbers.map(dayKey));
  const thisHour = Math.floor(now / HOUR);
  const hours = Array.from({ length: 24 }, (_, n) => {
    const hour = thisHour - 23 + n;
    const record = records[numbers.indexOf(Math.floor((hour * HOUR) / DAY))] ?? {};
    return { at: hour * HOUR, counts: record[String(hour % 24)] ?? {} };
  });
  const whole = numbers.map((day, n) => ({
    at: day * DAY,
    counts: Object.values(records[n] ?? {}).reduce<Counts>((one, other) => sum(one, other), {}),
  }));
  return { hours, days: whole };
}

/** Also counts what the metrics count. */
export function countActivity(metrics: Metrics, activity: Activity): Metrics {
  return {
    ...metrics,
    refusal(host, reason) {
      metrics.refusal(host, reason);
      activity.refused(reason);
    },
    auditEvent(name, reason, by) {
      metrics.auditEvent(name, reason, by);
      activity.event(name, by);
    },
  };
}
