// `npm run bench`: refreshes, connections, code exchanges and calls compared with the bare engine and a bare proxy, cost of the store, start
// time and memory; at the end, one table of all targets.
import { consentPage } from './consent-page.ts';
import { exchanges } from './code-exchanges.ts';
import { temporaryFolder } from './command.ts';
import { delivery } from './delivery.ts';
import { oneCaller } from './one-caller.ts';
import { type Options, PARTS, type PartName, readOptions } from './options.ts';
import type { Part } from './part.ts';
import { followPhases, logProgress, secondsOf } from './progress.ts';
import { proxiedCalls } from './proxied/measure.ts';
import { refreshes } from './refreshes.ts';
import { describeRun } from './report.ts';
import { buildOnce } from './server-process.ts';
import { storeCost } from './store-cost.ts';
import type { Place } from './subjects.ts';
import { describeTargets, type Target } from './targets.ts';
import { calls } from './tool-calls.ts';

const MEASURED: Record<PartName, Part> = {
  refreshes,
  'proxied-calls': proxiedCalls,
  store: storeCost,
  exchanges,
  calls,
  'consent-page': consentPage,
  'one-caller': oneCaller,
  delivery,
};

async function main(options: Options): Promise<void> {
  const root = await temporaryFolder();
  const place = { root, logLevel: options.logLevel, quick: options.quick };
  console.log(describeRun(options));
  const names = PARTS.filter((name) => options.only === undefined || options.only === name);
  const parts = names.map((name) => MEASURED[name]);
  const seconds = options.runs * secondsOf(parts.flatMap((part) => part.phases(options)));
  logProgress(`building the package; all takes about ${describeTime(seconds)}`);
  buildOnce();
  const runs: Target[][] = [];
  for (let run = 1; run <= options.runs; run += 1)
    runs.push(await measureRun(run, parts, place, options));
  console.log(
    `\nTargets${options.runs > 1 ? ' (the median decides)' : ''}\n${describeTargets(runs)}`,
  );
}

async function measureRun(
  run: number,
  parts: readonly Part[],
  place: Place,
  options: Options,
): Promise<Target[]> {
  const title = options.runs > 1 ? `run ${run} of ${options.runs}, ` : '';
  if (title !== '') console.log(`\nRun ${run} of ${options.runs}`);
  const phases = parts.flatMap((part) => part.phases(options));
  const begin = followPhases(phases, title);
  const targets: Target[] = [];
  for (const part of parts) {
    const report = await part.measure(place, begin, options);
    console.log(`\n${report.text}`);
    targets.push(...report.targets);
  }
  return targets;
}

function describeTime(seconds: number): string {
  return seconds < 100 ? `${Math.ceil(seconds)} s` : `${(seconds / 60).toFixed(1)} minutes`;
}

await main(readOptions());
