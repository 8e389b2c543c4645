// The result of the refreshes: environment, tables and targets.
import { availableParallelism, loadavg } from 'node:os';
import engineManifest from 'oidc-provider/package.json' with { type: 'json' };
import manifest from '../../package.json' with { type: 'json' };
import type { Options } from './options.ts';
import { type Measurement, ratesOf, ratiosOf } from './rates.ts';
import { FLAGS } from './server-process.ts';
import { type Kind, KINDS, NAMES, type Start, type StoreKind, STORES } from './subjects.ts';
import { atLeast, atMost, type Target } from './targets.ts';
import { redisVersion, textTable } from './text.ts';
import { median } from './timing.ts';

/** Times in seconds. */
export type Result = {
  measurements: Measurement[];
  starts: { kind: StoreKind; start: Start }[];
  memory: { kind: Kind; moment: Moment; bytes: number }[];
};

export const MOMENTS = ['started', 'after the refreshes', 'at the end'] as const;
export type Moment = (typeof MOMENTS)[number];

const MIN_RATIO = 0.9;
const MAX_START_SECONDS = 0.3;
/** In MB of 1,000,000 bytes. */
const MAX_MEMORY: Partial<Record<Moment, number>> = {
  started: 120,
  'after the refreshes': 180,
};

export function describeRun({ rounds, seconds, refreshes, starts, logLevel }: Options): string {
  const load = loadavg()[0]?.toFixed(2);
  return [
    `Gatehouse ${manifest.version}, oidc-provider ${engineManifest.version}, Node ${process.version}${FLAGS.map((flag) => ` ${flag}`).join('')}, Redis ${redisVersion()}`,
    `${availableParallelism()} cores for subjects, Redis and load together; load average at the start ${load}`,
    `${rounds} rounds of ${seconds} s, after ${refreshes} refreshes each; ${starts} cold starts; log level ${logLevel}`,
  ].join('\n');
}

export function describeRates({ measurements }: Result, { concurrencies }: Options): string {
  const rows = concurrencies.flatMap((concurrency) =>
    KINDS.map((kind) => {
      const rates = ratesOf(measurements, kind, concurrency);
      const ratios = ratiosOf(measurements, kind, concurrency);
      return [
        String(concurrency),
        NAMES[kind],
        ...[median(rates), Math.min(...rates), Math.max(...rates)].map((rate) => rate.toFixed(0)),
        ...(kind === 'bare'
          ? ['1', '', '']
          : [median(ratios), Math.min(...ratios), Math.max(...ratios)].map(inHundredths)),
      ];
    }),
  );
  const head = ['concurrency', 'subject', 'refreshes/s', 'min', 'max', 'ratio', 'min', 'max'];
  return `Refreshes per second, and the ratio to the engine on Redis in the same round (medians)\n${textTable(head, rows)}`;
}

export function describeStarts({ starts }: Result): string {
  const rows = STORES.map((kind) => {
    const own = starts.filter((each) => each.kind === kind).map(({ start }) => start);
    const serving = own.map((start) => start.serving);
    const alive = median(own.map((start) => start.alive));
    return [NAMES[kind], ...[alive, median(serving), Math.max(...serving)].map(inHundredths)];
  });
  const head = ['subject', 'to /livez', 'to metadata', 'slowest'];
  return `Seconds from spawn to the first 200 (medians)\n${textTable(head, rows)}`;
}

export function describeMemory({ memory }: Result, { refreshes }: Options): string {
  const rows = KINDS.map((kind) => [
    NAMES[kind],
    ...MOMENTS.map((moment) => (bytesAt(memory, kind, moment) / 1e6).toFixed(0)),
  ]);
  const title = `Resident memory in MB: once started, after ${refreshes} refreshes, after all rounds`;
  return `${title}\n${textTable(['subject', ...MOMENTS], rows)}`;
}

function bytesAt(memory: Result['memory'], kind: Kind, moment: Moment): number {
  return memory.find((read) => read.kind === kind && read.moment === moment)?.bytes ?? NaN;
}

export function targetsOf(
  { measurements, starts, memory }: Result,
  options: Options,
): readonly Target[] {
  const ratios = options.concurrencies
    .filter(isLoaded)
    .map((concurrency) =>
      atLeast(
        `refreshes on Redis ÷ engine with the usual adapter, ${concurrency} connections`,
        MIN_RATIO,
        median(ratiosOf(measurements, 'redis', concurrency)),
      ),
    );
  const served = STORES.map((kind) => {
    const own = starts.filter((each) => each.kind === kind).map(({ start }) => start.serving);
    return atMost(`start of ${NAMES[kind]}`, MAX_START_SECONDS, 's', median(own));
  });
  const held = STORES.flatMap((kind) =>
    MOMENTS.flatMap((moment) => {
      const most = MAX_MEMORY[moment];
      if (most === undefined) return [];
      const what = `memory of ${NAMES[kind]}, ${momentName(moment, options)}`;
      return [atMost(what, most, 'MB', bytesAt(memory, kind, moment) / 1e6)];
    }),
  );
  return [...ratios, ...served, ...held];
}

function momentName(moment: Moment, { refreshes }: Options): string {
  return moment === 'after the refreshes' ? `after ${refreshes} refreshes` : moment;
}

/** One connection alone measures latency. */
function isLoaded(concurrency: number): boolean {
  return concurrency > 1;
}

function inHundredths(value: number): string {
  return value.toFixed(2);
}
