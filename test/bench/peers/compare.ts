// Compares Gatehouse with other authorization servers for MCP: correctness, then cost (npm run bench:peers).
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { IGNORED, temporaryFolder, writeBetween } from '../command.ts';
import { logProgress } from '../progress.ts';
import { residentMemory } from '../server-process.ts';
import { MAX_RUN_MS } from './time-limits.ts';
import { GRACE_MS, runChecks } from './check.ts';
import { CHECKS } from './checks.ts';
import { IMPLEMENTATIONS, REFERENCE } from './implementations.ts';
import { type StartedImplementation, startAll } from './start-all.ts';
import { pinnedVersions } from './install.ts';
import { type Options, readOptions } from './options.ts';
import { describeAll, describeRun, type Findings } from './report.ts';
import { measureRounds } from './rounds.ts';
import type { Session } from './session.ts';

const DOCUMENT = join(import.meta.dirname, 'README.md');

async function compare(options: Options): Promise<void> {
  const root = await temporaryFolder();
  const place = { root, logLevel: 'warn' };
  const run = describeRun(options, await pinnedVersions());
  const { started, notStarted } = await startAll(options, place, logProgress);
  if (notStarted.has(REFERENCE.name))
    throw new Error(`nothing to compare with: ${notStarted.get(REFERENCE.name)}`);
  const checked: (StartedImplementation & Awaited<ReturnType<typeof runChecks>>)[] = [];
  for (const each of started) {
    logProgress(`checking ${each.session.implementation.name}`);
    checked.push({ ...each, ...(await runChecks(each.session, CHECKS)) });
  }
  const checkedAt = performance.now();
  const { samples, failures } = await measureRounds(started, options, logProgress);
  if (!options.quick) {
    logProgress('waiting until no used refresh token is answered again');
    await delay(Math.max(0, GRACE_MS - (performance.now() - checkedAt)));
    for (const { finish } of checked) await finish();
  }
  const findings: Findings[] = [];
  for (const { session, starts, startedWith, results } of checked) {
    const memory = { started: startedWith, ...(await memoryAfter(session)) };
    findings.push({
      implementation: session.implementation,
      starts,
      memory,
      results,
    });
    await session.running.stop();
  }
  const result = describeAll({ run, findings, samples, notStarted, failures });
  console.log(result);
  if (options.write) await writeBetween(DOCUMENT, IGNORED, result);
  if (notStarted.size + failures.size > 0) process.exitCode = 1;
}

async function memoryAfter({ running: { server, store } }: Session) {
  return {
    loaded: await residentMemory(server),
    ...(store ? { store: await residentMemory(store) } : {}),
  };
}

// Each server under test has an exit listener, so that none is left running.
process.setMaxListeners(100);
const onTimeout = () => {
  console.error('not done within fifteen minutes: this machine is too slow or too busy');
  process.exit(1);
};
const options = readOptions(IMPLEMENTATIONS);
const deadline = setTimeout(onTimeout, MAX_RUN_MS);
await compare(options);
clearTimeout(deadline);
