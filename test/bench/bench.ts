// `npm run bench`: refreshes, connections, code exchanges and calls compared with the bare engine and a bare proxy, cost of the store, start
// time and memory.
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { measureCalls } from './tool-calls.ts';
import { measureConsentPage } from './consent-page.ts';
import { measureExchanges } from './code-exchanges.ts';
import type { BenchClient } from './client.ts';
import { refreshWhile } from './load.ts';
import { HELP, type Options, type Part, readOptions } from './options.ts';
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
  describeRun,
  describeStarts,
  describeTargets,
  type Moment,
  type Result,
} from './report.ts';
import { residentMemory } from './server-process.ts';
import { measureProxiedCalls } from './proxied/measure.ts';
import { measureStoreCost } from './store-cost.ts';
import { KINDS, NAMES, type Place, startGatehouse, startSubject, STORES } from './subjects.ts';

const WARM_UP_CONCURRENCY = 16;

async function main(options: Options): Promise<void> {
  const root = await mkdtemp(join(tmpdir(), 'gatehouse-bench-'));
  process.once('exit', () => rmSync(root, { recursive: true, force: true }));
  const place = { root, logLevel: options.logLevel, quick: options.quick };
  console.log(`${describeRun(options)}\n`);
  const isChosen = (part: Part) => options.only === undefined || options.only === part;
  if (isChosen('refreshes')) await measureRefreshes(place, options);
  for (const [part, measure] of MEASURED_ALONE) {
    if (!isChosen(part)) continue;
    logProgress(part);
    console.log(`\n${await measure(place)}`);
  }
}

const MEASURED_ALONE: [Part, (place: Place) => Promise<string>][] = [
  ['proxied-calls', measureProxiedCalls],
  ['store', measureStoreCost],
  ['exchanges', measureExchanges],
  ['calls', measureCalls],
  ['consent-page', measureConsentPage],
];

async function measureRefreshes(place: Place, options: Options): Promise<void> {
  logProgress('cold starts');
  const starts = await startCold(place, options);
  const { measurements, memory, failures } = await measureRunning(place, options);
  const result = { starts, measurements, memory };
  const parts = [describeRates, describeStarts, describeMemory, describeTargets];
  console.log(parts.map((describe) => describe(result, options)).join('\n\n'));
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
  const subjects: RunningSubject[] = [];
  const memory: Result['memory'] = [];
  const measurements: Measurement[] = [];
  const failures: string[] = [];
  const readMemory = async ({ subject: { kind, server } }: RunningSubject, moment: Moment) =>
    memory.push({ kind, moment, bytes: await residentMemory(server) });
  for (const kind of KINDS) {
    logProgress(`${NAMES[kind]}: ${options.refreshes} refreshes`);
    const running = await openSubject(await startSubject(kind, place));
    subjects.push(running);
    await readMemory(running, 'started');
    failures.push(...(await warmUp(running.client, options)));
    await readMemory(running, 'after the refreshes');
  }
  await measureRounds(subjects, options, (measurement) => {
    const { kind, round, concurrency, load } = measurement;
    measurements.push(measurement);
    failures.push(...load.failures);
    const rate = (load.refreshes / load.seconds).toFixed(0);
    console.error(`round ${round + 1}, concurrency ${concurrency}, ${NAMES[kind]}: ${rate}/s`);
  });
  for (const running of subjects) {
    await readMemory(running, 'at the end');
    await running.subject.stop();
  }
  return { measurements, memory, failures };
}

async function warmUp(client: BenchClient, { refreshes }: Options): Promise<string[]> {
  const families = await openFamilies(client, WARM_UP_CONCURRENCY);
  const mayStart = (started: number) => started < refreshes;
  return (await refreshWhile(client, families, WARM_UP_CONCURRENCY, mayStart)).failures;
}

function logProgress(what: string): void {
  console.error(`${(performance.now() / 1000).toFixed(0).padStart(4)} s  ${what}`);
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
const options = readOptions(process.argv.slice(2));
if (options.help) console.log(HELP);
else await main(options);
