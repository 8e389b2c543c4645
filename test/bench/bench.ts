// The benchmark (npm run bench): refreshes, exchanges and calls next to the bare engine, what the store costs, time to serve, and memory.
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { measureCalls } from './calls.ts';
import { measureConsentPage } from './consent-page.ts';
import { measureExchanges } from './exchanges.ts';
import type { Visitor } from './families.ts';
import { refreshWhile } from './load.ts';
import { HELP, type Options, readOptions } from './options.ts';
import {
  type Contestant,
  type Measurement,
  measureRounds,
  openContestant,
  openFamilies,
} from './rates.ts';
import {
  describeMemory,
  describeRates,
  describeRun,
  describeStarts,
  describeTargets,
  type Moment,
  type Result,
} from './report.ts';
import { residentMemory } from './server-process.ts';
import { measureStoreCost } from './store-cost.ts';
import { KINDS, NAMES, type Place, startGatehouse, startSubject, STORES } from './subjects.ts';

const WARM_UP_CONCURRENCY = 16;

async function main(options: Options): Promise<void> {
  const root = await mkdtemp(join(tmpdir(), 'gatehouse-bench-'));
  process.once('exit', () => rmSync(root, { recursive: true, force: true }));
  const place = { root, logLevel: options.logLevel };
  console.log(`${describeRun(options)}\n`);
  const starts = await startCold(place, options);
  const { measurements, memory, failures } = await measureRunning(place, options);
  const result = { starts, measurements, memory };
  const parts = [describeRates, describeStarts, describeMemory, describeTargets];
  console.log(parts.map((describe) => describe(result, options)).join('\n\n'));
  for (const measure of [measureStoreCost, measureExchanges, measureCalls, measureConsentPage])
    console.log(`\n${await measure(place)}`);
  if (failures.length === 0) return;
  console.error(`\n${failures.length} refreshes failed, the first with: ${failures[0]}`);
  process.exitCode = 1;
}

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

async function measureRunning(place: Place, options: Options) {
  const contestants: Contestant[] = [];
  const memory: Result['memory'] = [];
  const measurements: Measurement[] = [];
  const failures: string[] = [];
  const readMemory = async ({ subject: { kind, server } }: Contestant, moment: Moment) =>
    memory.push({ kind, moment, bytes: await residentMemory(server) });
  for (const kind of KINDS) {
    const contestant = await openContestant(await startSubject(kind, place));
    contestants.push(contestant);
    await readMemory(contestant, 'started');
    failures.push(...(await warmUp(contestant.visitor, options)));
    await readMemory(contestant, 'after the refreshes');
  }
  await measureRounds(contestants, options, (measurement) => {
    const { kind, round, concurrency, load } = measurement;
    measurements.push(measurement);
    failures.push(...load.failures);
    const rate = (load.refreshes / load.seconds).toFixed(0);
    console.error(`round ${round + 1}, concurrency ${concurrency}, ${NAMES[kind]}: ${rate}/s`);
  });
  for (const contestant of contestants) {
    await readMemory(contestant, 'at the end');
    await contestant.subject.stop();
  }
  return { measurements, memory, failures };
}

async function warmUp(visitor: Visitor, { refreshes }: Options): Promise<string[]> {
  const families = await openFamilies(visitor, WARM_UP_CONCURRENCY);
  const goesOn = (started: number) => started < refreshes;
  return (await refreshWhile(visitor, families, WARM_UP_CONCURRENCY, goesOn)).failures;
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
const options = readOptions(process.argv.slice(2));
if (options.help) console.log(HELP);
else await main(options);
