// Measures all flows in rounds. Implementations take turns in changing order, so that other load slows all equally.
import { PART_TIMEOUT_MS, LAST_ROUND_MS, withTimeout } from './time-limits.ts';
import type { StartedImplementation } from './start-all.ts';
import {
  type Add,
  FLOWS,
  measureCalls,
  measureConnections,
  newRunner,
  refreshFor,
  type Runner,
  warmUp,
} from './flows.ts';
import { addSample, type Samples } from './measurement.ts';
import { CONCURRENCIES, type Options } from './options.ts';

type Measure = (runner: Runner, options: Options, add: Add) => Promise<void>;

const PARTS: Record<string, Measure> = {
  connections: measureConnections,
  refreshes: measureRefreshes,
  calls: measureCalls,
};

/** `failures` has the reason by name for implementations that are measured no further. */
export type Measured = { samples: Samples; failures: Map<string, string> };

export async function measureRounds(
  started: readonly StartedImplementation[],
  options: Options,
  report: (line: string) => void,
): Promise<Measured> {
  const measured: Measured = { samples: new Map(), failures: new Map() };
  const runners = started.map(({ session }) => newRunner(session));
  report('warming up');
  for (const runner of runners) await measureOne(runner, warmUp, options, measured);
  for (let round = 0; round < options.rounds; round += 1) {
    if (performance.now() > LAST_ROUND_MS) {
      report('no time for another round');
      break;
    }
    const first = round % runners.length;
    const order = [...runners.slice(first), ...runners.slice(0, first)];
    for (const [name, measure] of Object.entries(PARTS)) {
      report(`round ${round + 1} of ${options.rounds}: ${name}`);
      for (const runner of order) await measureOne(runner, measure, options, measured);
    }
  }
  return measured;
}

async function measureOne(
  runner: Runner,
  measure: Measure,
  options: Options,
  { samples, failures }: Measured,
): Promise<void> {
  const { id, name } = runner.session.implementation;
  if (failures.has(name)) return;
  try {
    const add: Add = (flow, sample) => addSample(samples, flow, id, sample);
    await withTimeout(PART_TIMEOUT_MS, () => measure(runner, options, add));
  } catch (error) {
    failures.set(name, error instanceof Error ? error.message : String(error));
  }
}

async function measureRefreshes(runner: Runner, { seconds }: Options, add: Add): Promise<void> {
  for (const concurrency of CONCURRENCIES)
    add(FLOWS.refresh(concurrency), await refreshFor(seconds, concurrency, runner));
}
