// The result of the scale measurement as text.
import { cpus } from 'node:os';
import { redisVersion, textTable } from '../text.ts';
import type { Inventory } from './inventory.ts';
import type { Measured } from './measurement.ts';
import type { OtherSizes } from './other-sizes.ts';
import { type PageTime, TARGET_MS } from './pages.ts';
import type { Cost, Costs } from './cpu-time.ts';

export type Result = {
  /** People of the small system. */
  small: number;
  /** Written by the real flow, and for one generated person. */
  real: Inventory;
  written: Inventory;
  /** Redis memory by kind of key. */
  memory: Record<string, number>;
  measured: Measured[];
  pages: readonly PageTime[];
  others: OtherSizes;
  costs: Costs;
  bytesOfProcess: number;
  isCutShort: boolean;
};

/** Times and random numbers as text differ by a few digits. */
const TOLERATED_BYTES = 16;
/** Of the pages that are measured. */
const SHOWN_PAGES = 8;

/** Kinds whose keys or sizes differ from those of the real flow; must be empty. */
export function unlike({ real, written }: Pick<Result, 'real' | 'written'>): string[] {
  const kinds = [...new Set([...Object.keys(real), ...Object.keys(written)])];
  return kinds.filter((kind) => {
    const [a, b] = [real[kind], written[kind]];
    const isSame = a && b && a.keys === b.keys && a.members === b.members;
    return !isSame || Math.abs(a.bytes - b.bytes) > TOLERATED_BYTES;
  });
}

export function describe(result: Result): string {
  const parts = [
    describePlace,
    describePattern,
    describeMemory,
    describeTimes,
    describePages,
    describeProcess,
    describeMillion,
  ];
  return parts.map((part) => part(result)).join('\n\n');
}

function describePlace({ isCutShort }: Result): string {
  const cut = isCutShort ? '\nThe time was over before all people were written.' : '';
  return `Node ${process.version}, Redis ${redisVersion()}, ${cpus().length} cores for Gatehouse, Redis and load together${cut}`;
}

function describePattern({ real, written, memory }: Result): string {
  const rows = Object.entries(real).map(([kind, { keys, members, bytes }]) => [
    kind,
    members > 0 && keys === 0 ? 'a member' : String(keys),
    String(bytes),
    String(written[kind]?.bytes ?? 'none'),
    memory[kind]?.toFixed(0) ?? '',
  ]);
  const head = ['kind', 'keys', 'bytes', 'as written here', 'memory of a key'];
  return `What one connected person is in Redis: stored bytes, and the memory that Redis takes for a key\n${textTable(head, rows)}`;
}

function describeMemory({ measured, others }: Result): string {
  const rows = measured.map(({ people, bytes, keys }) => [
    people.toLocaleString('en'),
    (bytes / 1e6).toFixed(1),
    (bytes / people).toFixed(0),
    (keys / people).toFixed(2),
  ]);
  const head = ['people', 'MB', 'bytes per person', 'keys per person'];
  return [
    `Memory of Redis (used_memory)\n${textTable(head, rows)}`,
    `  a connector: ${others.connector.toFixed(0)} bytes; a recorded call: ${others.recordedCall.toFixed(0)} bytes`,
    `  connections of a process to Redis: ${others.connections}`,
  ].join('\n');
}

function describeTimes({ small, measured }: Result): string {
  const rows = measured.map((each) => [
    each.people.toLocaleString('en'),
    ...[each.refresh, each.firstCall].flatMap(({ value, ratio }) => [
      value.toFixed(1),
      ratio.toFixed(2),
    ]),
  ]);
  const head = ['people', 'refresh ms', 'ratio', 'first call ms', 'ratio'];
  return `Times of one at a time, people chosen at random (medians), and the ratio to a system of ${small} people in the same moments\n${textTable(head, rows)}`;
}

function describePages({ measured, pages }: Result): string {
  const people = (measured.at(-1)?.people ?? 0).toLocaleString('en');
  const slow = pages.filter(({ milliseconds }) => milliseconds >= TARGET_MS);
  const slowest = pages.toSorted((a, b) => b.milliseconds - a.milliseconds).slice(0, SHOWN_PAGES);
  const rows = slowest.map(({ page, milliseconds, processor }) => [
    page,
    milliseconds.toFixed(1),
    processor.toFixed(0),
    milliseconds < TARGET_MS ? 'met' : 'missed',
  ]);
  return [
    `The ${rows.length} slowest of ${pages.length} pages of the console and the API, one at a time with ${people} people (medians); target: less than ${TARGET_MS} ms, ${slow.length === 0 ? 'met by all' : `missed by ${slow.length}`}`,
    textTable(['page', 'ms', 'of a processor', ''], rows),
  ].join('\n');
}

function describeProcess({ small, measured, costs, bytesOfProcess }: Result): string {
  const rates = measured.map(({ people, refreshesPerSecond, callsPerSecond }) => [
    people.toLocaleString('en'),
    ...[refreshesPerSecond, callsPerSecond].flatMap(({ value, ratio }) => [
      value.toFixed(0),
      ratio.toFixed(2),
    ]),
  ]);
  const spent = Object.entries(costs).map(([what, { gatehouse, redis }]) => [
    what,
    gatehouse.toFixed(2),
    redis.toFixed(3),
    perCore(gatehouse).toFixed(0),
    perCore(redis).toFixed(0),
  ]);
  return [
    `One process at 16 connections, and the ratio to the same system of ${small}; it shares the cores with all else`,
    textTable(['people', 'refreshes/s', 'ratio', 'calls/s', 'ratio'], rates),
    '',
    'Milliseconds of a processor that one takes, and so how many a second a whole core does; a connection is all from registration to tokens',
    textTable(['', 'Gatehouse', 'Redis', 'per core of Gatehouse', 'per core of Redis'], spent),
    '',
    `Resident memory of the process at the end: ${(bytesOfProcess / 1e6).toFixed(0)} MB`,
  ].join('\n');
}

function perCore(milliseconds: number): number {
  return 1000 / milliseconds;
}

const MILLION = 1_000_000;
const HOUR = 3600;
const CALLS_A_DAY = 50;
const BUSY_HOURS = 8;
/** The share of a core up to which a process should be loaded. */
const SHARE = 0.5;

/** Extrapolates from the largest size. */
function describeMillion({ measured, costs }: Result): string {
  const { people, bytes } = measured.at(-1) ?? { people: NaN, bytes: NaN };
  const day = BUSY_HOURS * HOUR;
  const row = (what: string, rate: number, { gatehouse, redis }: Cost) => [
    what,
    rate.toFixed(0),
    Math.ceil(rate / (perCore(gatehouse) * SHARE)).toFixed(0),
    `${((100 * rate) / perCore(redis)).toFixed(0)}%`,
  ];
  const rows = [
    row('all refresh every hour', MILLION / HOUR, costs.refresh),
    row(
      `${CALLS_A_DAY} calls each in ${BUSY_HOURS} hours`,
      (MILLION * CALLS_A_DAY) / day,
      costs.call,
    ),
    row(`all connect anew in ${BUSY_HOURS} hours`, MILLION / day, costs.connection),
  ];
  const gigabytes = ((bytes / people) * MILLION) / 1e9;
  return [
    `A million connected people, by arithmetic; each process is asked for ${SHARE * 100}% of a core`,
    textTable(['what', 'per second', 'processes', 'of a core for Redis'], rows),
    `  memory of Redis: ${gigabytes.toFixed(1)} GB`,
  ].join('\n');
}
