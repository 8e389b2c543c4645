// The comparison as Markdown.
import { availableParallelism, loadavg } from 'node:os';
import engine from 'oidc-provider/package.json' with { type: 'json' };
import gatehouse from '../../../package.json' with { type: 'json' };
import { atLeast, describeTargets, type Target } from '../targets.ts';
import { markdownTable } from '../text.ts';
import { median } from '../timing.ts';
import type { CheckResults } from './check.ts';
import { CHECKS } from './checks.ts';
import type { Implementation } from './implementation.ts';
import { FLOWS } from './flows.ts';
import { figuresOf, ratioOf, type Samples } from './measurement.ts';
import type { Options } from './options.ts';

/** Least ratios of authorizations a second to those of a peer. */
const MIN_AUTHORIZATIONS: Record<string, number> = {
  'oidc-provider': 0.7,
  'better-auth': 1.3,
  'workers-oauth-provider': 1.3,
};

/** In bytes. `store`: of its Redis, if there is one. */
export type Memory = { started: number; loaded: number; store?: number };

/** The results of one implementation. */
export type Findings = {
  implementation: Implementation;
  /** Seconds from spawn to metadata, for every cold start. */
  starts: number[];
  memory: Memory;
  results: CheckResults;
};

export type Found = {
  /** The result of `describeRun` at the start. */
  run: string;
  findings: readonly Findings[];
  samples: Samples;
  /** The reason by name, for implementations that did not start or were measured only in part. */
  notStarted: ReadonlyMap<string, string>;
  failures: ReadonlyMap<string, string>;
};

export function describeAll(found: Found): string {
  const { run, findings, samples } = found;
  const targets = targetsOf(found);
  const parts = [
    run,
    describeAbsence(found),
    '### Who passes what',
    describeChecks(findings),
    '### Flows (a ratio above 1 is faster than that Gatehouse)',
    describeFlows(findings, samples),
    ...(targets.length === 0 ? [] : ['### Targets', describeTargets([targets], markdownTable)]),
    '### What a token adds to a call (a ratio below 1 is cheaper than Gatehouse on Redis)',
    describeCalls(findings, samples),
    '### Start and memory (a ratio below 1 is quicker or smaller than Gatehouse on Redis)',
    describeProcesses(findings),
  ];
  return parts.filter((part) => part !== '').join('\n\n');
}

const WORD = { true: 'yes', false: '**no**', undefined: '–' };

export function describeRun(
  { rounds, seconds, starts, quick }: Options,
  versions: readonly string[],
): string {
  const own = [`Gatehouse ${gatehouse.version}`, `oidc-provider ${engine.version}`];
  return [
    `${[...own, ...versions].join(', ')}; Node ${process.version}.`,
    `${availableParallelism()} cores for servers, stores and load together; load average at the start ${loadavg()[0]?.toFixed(2)}.`,
    `${rounds} rounds, turns of ${seconds} s, ${starts} cold starts${quick ? '; a quick run, whose figures mean little' : ''}.`,
  ].join('\n');
}

function describeAbsence({ notStarted, failures }: Found): string {
  const lines = [
    ...[...notStarted].map(([name, reason]) => `- LEFT OUT: ${name}: ${reason}`),
    ...[...failures].map(([name, reason]) => `- MEASURED IN PART: ${name}: ${reason}`),
  ];
  return lines.map((line) => line.replace(/\s+/g, ' ')).join('\n');
}

function describeChecks(all: readonly Findings[]): string {
  const rows = CHECKS.flatMap((check) => check.rows);
  const cell = ({ results }: Findings, row: string) =>
    WORD[String(results.get(row)?.passed) as keyof typeof WORD];
  const body = rows.map((row) => [row, ...all.map((findings) => cell(findings, row))]);
  const head = ['claim', ...all.map(({ implementation }) => implementation.name)];
  return [markdownTable(head, body), ...notesOn(all, rows)].join('\n');
}

/** Explains results other than a plain pass. */
function notesOn(all: readonly Findings[], rows: readonly string[]): string[] {
  const notes = all.flatMap(({ implementation, results }) =>
    rows.flatMap((row) => {
      const { passed, note } = results.get(row) ?? {};
      return note === undefined || passed === true
        ? []
        : [`- ${implementation.name}, ${row}: ${note}`];
    }),
  );
  return notes.length === 0 ? [] : ['', ...notes];
}

/** Ratios to Gatehouse on each of its stores, because durable writes cost more. */
function describeFlows(all: readonly Findings[], samples: Samples): string {
  const references = all.filter(({ implementation }) => implementation.isGatehouse);
  const shown = [...samples].filter(([flow]) => flow !== FLOWS.call && flow !== FLOWS.open);
  const body = shown.flatMap(([flow, ofFlow]) =>
    all.flatMap(({ implementation: { id, name } }) => {
      const own = ofFlow.get(id);
      if (!own) return [];
      const { rate, middle, slow } = figuresOf(own);
      const ratios = references.map(({ implementation }) =>
        ratioOf(own, ofFlow.get(implementation.id) ?? []).toFixed(2),
      );
      return [[flow, name, rate.toFixed(0), ...ratios, middle.toFixed(1), slow.toFixed(1)]];
    }),
  );
  const ratios = references.map(({ implementation }) => `to ${implementation.name}`);
  return markdownTable(['flow', 'server', 'per second', ...ratios, 'median ms', 'p99 ms'], body);
}

/** Gatehouse on Redis compared with each peer that was measured. */
function targetsOf({ findings: [reference, ...peers], samples }: Found): Target[] {
  const ofFlow = samples.get(FLOWS.authorize);
  const own = reference && ofFlow?.get(reference.implementation.id);
  return peers.flatMap(({ implementation: { id, name } }) => {
    const [least, theirs] = [MIN_AUTHORIZATIONS[id], ofFlow?.get(id)];
    if (least === undefined || !own || !theirs) return [];
    return [atLeast(`authorizations ÷ ${name}`, least, ratioOf(own, theirs))];
  });
}

/** The cost of a token per call: medians of adjacent slices. */
function describeCalls(all: readonly Findings[], samples: Samples): string {
  const costs = all.flatMap(({ implementation: { id, name } }) => {
    const [call, open] = [FLOWS.call, FLOWS.open].map((flow) => samples.get(flow)?.get(id) ?? []);
    if (!call?.length || !open?.length) return [];
    const [guarded, bare] = [figuresOf(call), figuresOf(open)];
    const costs = call.map(({ rate }, n) => 1e6 / rate - 1e6 / (open[n]?.rate ?? NaN));
    return [{ name, guarded, bare, cost: median(costs) }];
  });
  const body = costs.map(({ name, guarded, bare, cost }) => [
    name,
    ...[bare.rate, guarded.rate].map((rate) => rate.toFixed(0)),
    ...[guarded.middle, guarded.slow].map((milliseconds) => milliseconds.toFixed(1)),
    cost.toFixed(0),
    (cost / (costs[0]?.cost ?? NaN)).toFixed(2),
  ]);
  const rates = ['open calls/s', 'calls with a token/s', 'median ms', 'p99 ms'];
  return markdownTable(['server', ...rates, 'the token costs µs', 'ratio'], body);
}

function describeProcesses(all: readonly Findings[]): string {
  const [first] = all;
  const body = all.map(({ implementation, starts, memory }) => [
    implementation.name,
    median(starts).toFixed(2),
    (median(starts) / median(first?.starts ?? [])).toFixed(2),
    ...[memory.started, memory.loaded].map(inMegabytes),
    (memory.loaded / (first?.memory.loaded ?? NaN)).toFixed(2),
    memory.store === undefined ? '' : inMegabytes(memory.store),
  ]);
  const head = [
    'server',
    'cold start s',
    'ratio',
    'MB started',
    'MB after the load',
    'ratio',
    'MB of its Redis',
  ];
  return markdownTable(head, body);
}

function inMegabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(0);
}
