// Refreshes per second in rounds, cold starts, and memory before and after many refreshes.
import type { BenchClient } from './client.ts';
import { refreshWhile } from './load.ts';
import type { Options } from './options.ts';
import type { Part } from './part.ts';
import type { Begin } from './progress.ts';
import {
  type RunningSubject,
  type Measurement,
  measureRounds,
  openSubject,
  openFamilies,
} from './rates.ts';
import {
  describeMemory,
  describeRates,
  describeStarts,
  type Moment,
  type Result,
  targetsOf,
} from './report.ts';
import { residentMemory } from './server-process.ts';
import { KINDS, NAMES, type Place, startGatehouse, startSubject, STORES } from './subjects.ts';

const WARM_UP_CONCURRENCY = 16;
/** For the expected time only. */
const WARM_UP_PER_SECOND = 2000;
const SECONDS_OF_START = 0.7;

const COLD_STARTS = 'cold starts';
const warmUpPhase = (kind: (typeof KINDS)[number], { refreshes }: Options) =>
  `${NAMES[kind]}, ${refreshes} refreshes`;
const roundPhase = (round: number, { rounds }: Options) =>
  `refreshes, round ${round + 1} of ${rounds}`;

export const refreshes: Part = {
  phases: (options) => [
    [COLD_STARTS, options.starts * STORES.length * SECONDS_OF_START],
    ...KINDS.map(
      (kind) => [warmUpPhase(kind, options), 1 + options.refreshes / WARM_UP_PER_SECOND] as const,
    ),
    ...Array.from({ length: options.rounds }, (_, round) => {
      const turns = KINDS.length * options.concurrencies.length * options.seconds;
      return [roundPhase(round, options), 3 + turns] as const;
    }),
  ],
  async measure(place, begin, options) {
    begin(COLD_STARTS);
    const starts = await startCold(place, options);
    const { failures, ...measured } = await measureRunning(place, begin, options);
    if (failures.length > 0) {
      console.error(`${failures.length} refreshes failed, the first with: ${failures[0]}`);
      process.exitCode = 1;
    }
    const result = { starts, ...measured };
    const parts = [describeRates, describeStarts, describeMemory];
    const text = parts.map((describe) => describe(result, options)).join('\n\n');
    return { text, targets: targetsOf(result, options) };
  },
};

async function startCold(place: Place, { starts }: Options): Promise<Result['starts']> {
  const measured: Result['starts'] = [];
  for (let count = 0; count < starts; count += 1)
    for (const kind of STORES) {
      const { start, stop } = await startGatehouse(kind, place);
      await stop();
      measured.push({ kind, start });
    }
  return measured;
}

async function measureRunning(place: Place, begin: Begin, options: Options) {
  const subjects: RunningSubject[] = [];
  const memory: Result['memory'] = [];
  const measurements: Measurement[] = [];
  const failures: string[] = [];
  const readMemory = async ({ subject: { kind, server } }: RunningSubject, moment: Moment) =>
    memory.push({ kind, moment, bytes: await residentMemory(server) });
  try {
    for (const kind of KINDS) {
      begin(warmUpPhase(kind, options));
      const running = await openSubject(await startSubject(kind, place));
      subjects.push(running);
      await readMemory(running, 'started');
      failures.push(...(await warmUp(running.client, options)));
      await readMemory(running, 'after the refreshes');
    }
    await measureRounds(subjects, options, {
      onRound: (round) => begin(roundPhase(round, options)),
      onMeasured(measurement) {
        measurements.push(measurement);
        failures.push(...measurement.load.failures);
      },
    });
    for (const running of subjects) await readMemory(running, 'at the end');
  } finally {
    await Promise.all(subjects.map(({ subject }) => subject.stop()));
  }
  return { measurements, memory, failures };
}

async function warmUp(client: BenchClient, { refreshes }: Options): Promise<string[]> {
  const families = await openFamilies(client, WARM_UP_CONCURRENCY);
  const mayStart = (started: number) => started < refreshes;
  return (await refreshWhile(client, families, WARM_UP_CONCURRENCY, mayStart)).failures;
}
