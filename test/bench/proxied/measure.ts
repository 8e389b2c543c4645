// Calls and streams directly, through a reverse proxy that only passes bytes on, and through Gatehouse, in turns.
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parse, stringify } from 'yaml';
import { freePorts } from '../../support/free-ports.ts';
import { until } from '../../support/until.ts';
import { openClient } from '../client.ts';
import { forSeconds } from '../load.ts';
import {
  cpuTime,
  residentMemory,
  type ServerProcess,
  startProcess,
  untilPrinted,
} from '../server-process.ts';
import { type Place, startGatehouse } from '../subjects.ts';
import { targetLine, textTable } from '../text.ts';
import { median } from '../timing.ts';
import { callWhile, openStream, type Target } from './raw-calls.ts';

const MIN_RATE_RATIO = 0.6;
const MAX_ADDED_MS = 0.5;
const MAX_EVENT_MS = 1;
const MAX_STREAM_BYTES = 20_000;

const FULL = { rounds: 5, turnSeconds: 0.4, warmUpSeconds: 4, streams: 1000, events: 200 };
const QUICK = { rounds: 1, turnSeconds: 0.1, warmUpSeconds: 0.1, streams: 20, events: 3 };
type Effort = typeof FULL;

const WAYS = ['direct', 'bare proxy', 'Gatehouse'] as const;
type Way = (typeof WAYS)[number];
type ProxyWay = Exclude<Way, 'direct'>;
type Targets = Record<Way, Target & { server: ServerProcess }>;

type Kind = { name: string; message: object; connections: readonly number[]; isSdk?: true };

function callOf(name: string, argumentsOf: object): object {
  return { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: argumentsOf } };
}

const SMALL = 'small JSON';
const KINDS: readonly Kind[] = [
  { name: SMALL, message: callOf('fixed', { body: 'small' }), connections: [1, 16, 64] },
  { name: '1 MB JSON', message: callOf('fixed', { body: 'large' }), connections: [16] },
  { name: 'event stream', message: callOf('fixed', { body: 'event' }), connections: [16] },
  {
    name: 'SDK server',
    message: callOf('member_visits', { memberId: 'M0600' }),
    connections: [16],
    isSdk: true,
  },
];

/** One turn: calls a second, milliseconds of a call, and microseconds of a processor that the server of this way takes for each. */
type Turn = { perSecond: number; p50: number; p99: number; cpu: number };
type Measured = { kind: string; connections: number; turns: Record<Way, Turn[]> };

/** Returns the lines of the report. Throws if a call fails. */
export async function measureProxiedCalls(place: Place): Promise<string> {
  const effort = place.quick ? QUICK : FULL;
  const measured: Measured[] = [];
  const fixed = await openTargets(place, 'test/bench/proxied/upstream.ts');
  let streams: Streams;
  try {
    for (const kind of KINDS.filter(({ isSdk }) => !isSdk))
      measured.push(...(await measureKind(fixed.targets, kind, effort)));
    console.error('proxied calls: streams');
    streams = await measureStreams(fixed.targets, fixed.upstream, effort);
  } finally {
    await fixed.stop();
  }
  const sdk = await openTargets(place, 'test/bench/unprotected-server.ts');
  try {
    for (const kind of KINDS.filter(({ isSdk }) => isSdk))
      measured.push(...(await measureKind(sdk.targets, kind, effort)));
  } finally {
    await sdk.stop();
  }
  return describe(measured, streams, effort);
}

async function openTargets(place: Place, script: string) {
  const [serverPort, barePort] = await freePorts(2);
  const directory = await mkdtemp(join(place.root, 'proxied-'));
  const isFixed = script.includes('proxied');
  const origin = `http://${isFixed ? '127.0.0.1' : 'localhost'}:${serverPort}`;
  const upstream = startProcess(script, { args: [String(serverPort)], directory });
  const bareDirectory = await mkdtemp(join(place.root, 'proxied-'));
  const bare = startProcess('test/bench/proxied/reverse-proxy.ts', {
    args: [String(barePort), origin],
    directory: bareDirectory,
  });
  const servers = [upstream, bare];
  const stop = async () => void (await Promise.all(servers.map((server) => server.stop())));
  try {
    await untilPrinted(bare, /(listening)/);
    if (isFixed) await untilPrinted(upstream, /(listening)/);
    const url = `${origin}/mcp`;
    const gatehouse = await startGatehouse('sqlite', place, {
      config: await settingsFor(place, url),
    });
    servers.push(gatehouse.server);
    const { accessToken: token } = await (await openClient(gatehouse)).openFamily();
    const targets: Targets = {
      direct: { url, server: upstream },
      'bare proxy': { url: `http://127.0.0.1:${barePort}/mcp`, server: bare },
      Gatehouse: { url: gatehouse.resource, token, server: gatehouse.server },
    };
    return { targets, upstream, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

const DEVELOPMENT_FILE = join(import.meta.dirname, '../../../config/development.yaml');

async function settingsFor(place: Place, url: string): Promise<string> {
  // One person has all the streams of the measurement.
  const openCalls = { perCaller: 4000, inAll: 8000 };
  const upstream = { url, defaultLevel: 'analytics', openCalls };
  const settings = {
    ...parse(await readFile(DEVELOPMENT_FILE, 'utf8')),
    resourceServer: { upstream },
  };
  const config = join(await mkdtemp(join(place.root, 'proxied-')), 'gatehouse.yaml');
  await writeFile(config, stringify(settings));
  return config;
}

async function measureKind(targets: Targets, kind: Kind, effort: Effort): Promise<Measured[]> {
  const { rounds, turnSeconds, warmUpSeconds } = effort;
  const all: Measured[] = [];
  for (const connections of kind.connections) {
    console.error(`proxied calls: ${kind.name}, ${connections} connections`);
    if (connections === kind.connections[0])
      for (const way of WAYS) await take(targets[way], kind, 16, warmUpSeconds);
    const turns: Measured['turns'] = { direct: [], 'bare proxy': [], Gatehouse: [] };
    for (let round = 0; round < rounds; round += 1)
      for (const way of round % 2 === 0 ? WAYS : WAYS.toReversed())
        turns[way].push(await take(targets[way], kind, connections, turnSeconds));
    all.push({ kind: kind.name, connections, turns });
  }
  return all;
}

async function take(
  { server, ...target }: Target & { server: ServerProcess },
  { message }: Kind,
  connections: number,
  seconds: number,
): Promise<Turn> {
  const [begun, spent] = [performance.now(), cpuTime(server.pid)];
  const mayStart = forSeconds(seconds);
  const calling = Array.from({ length: connections }, () => callWhile(target, message, mayStart));
  const times = (await Promise.all(calling)).flat().sort((a, b) => a - b);
  const elapsed = (performance.now() - begun) / 1000;
  return {
    perSecond: times.length / elapsed,
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
    cpu: (1000 * (cpuTime(server.pid) - spent)) / times.length,
  };
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** Milliseconds from server to client, sorted, and bytes of resident memory for each idle stream. */
type Streams = { events: Record<Way, number[]>; bytes: Record<ProxyWay, number> };

async function measureStreams(
  targets: Targets,
  upstream: ServerProcess,
  { streams: count, events }: Effort,
): Promise<Streams> {
  const delays: Record<Way, number[]> = { direct: [], 'bare proxy': [], Gatehouse: [] };
  const open = await Promise.all(
    WAYS.map((way) => openStream(targets[way], (ms) => delays[way].push(ms))),
  );
  for (let sent = 1; sent <= events; sent += 1) {
    process.kill(upstream.pid, 'SIGUSR2');
    await until('an event', () => WAYS.every((way) => delays[way].length >= sent), 10);
  }
  for (const stream of open) stream.close();
  const bytes = { 'bare proxy': NaN, Gatehouse: NaN };
  for (const way of ['bare proxy', 'Gatehouse'] as const)
    bytes[way] = await bytesOfStream(targets[way], count);
  for (const way of WAYS) delays[way].sort((a, b) => a - b);
  return { events: delays, bytes };
}

/** The first streams make the process as large as it gets by opening them; the next as many are measured. */
async function bytesOfStream(target: Targets[Way], count: number): Promise<number> {
  const first = await openStreams(target, count);
  const before = await settledMemory(target.server);
  const next = await openStreams(target, count);
  const after = await settledMemory(target.server);
  for (const stream of [...first, ...next]) stream.close();
  return (after - before) / count;
}

async function openStreams(target: Target, count: number) {
  const open = [];
  for (let n = 0; n < count; n += 1) open.push(await openStream(target));
  return open;
}

async function settledMemory(server: ServerProcess): Promise<number> {
  await delay(1000);
  return residentMemory(server);
}

function describe(
  measured: readonly Measured[],
  { events, bytes }: Streams,
  effort: Effort,
): string {
  const rows = measured.flatMap(({ kind, connections, turns }) =>
    WAYS.map((way) => {
      const of = (part: keyof Turn) => median(turns[way].map((turn) => turn[part]));
      const added = (part: 'p50' | 'p99') =>
        median(turns[way].map((turn, n) => turn[part] - (turns.direct[n]?.[part] ?? NaN)));
      return [
        kind,
        String(connections),
        way,
        of('perSecond').toFixed(0),
        way === 'direct' ? '' : ratioTo(turns, way, 'bare proxy').toFixed(2),
        of('p50').toFixed(2),
        way === 'direct' ? '' : added('p50').toFixed(2),
        way === 'direct' ? '' : added('p99').toFixed(2),
        of('cpu').toFixed(0),
      ];
    }),
  );
  const head = [
    'response',
    'connections',
    'way',
    'calls/s',
    'of bare proxy',
    'ms',
    'added ms',
    'added p99',
    'CPU µs',
  ];
  return [
    `Calls directly, through a reverse proxy that only passes bytes on, and through Gatehouse (medians of ${effort.rounds} rounds)`,
    textTable(head, rows),
    `  an event reaches the client after ms (median, p99): ${WAYS.map((way) => `${way} ${quantile(events[way], 0.5).toFixed(2)}, ${quantile(events[way], 0.99).toFixed(2)}`).join('; ')}`,
    `  resident kB of each of ${effort.streams} idle streams: bare proxy ${kilobytes(bytes['bare proxy'])}, Gatehouse ${kilobytes(bytes.Gatehouse)}`,
    ...targets(measured, { events, bytes }),
  ].join('\n');
}

function targets(measured: readonly Measured[], { events, bytes }: Streams): string[] {
  const small = measured.filter(({ kind }) => kind === SMALL);
  const rates = small
    .filter(({ connections }) => connections > 1)
    .map(({ connections, turns }) => {
      const ratio = ratioTo(turns, 'Gatehouse', 'bare proxy');
      const what = `calls per second at least ${MIN_RATE_RATIO} of the bare proxy, ${connections} connections`;
      return targetLine(ratio >= MIN_RATE_RATIO, what, ratio.toFixed(2));
    });
  const added = small.map(({ connections, turns }) => {
    const ms = median(
      turns.Gatehouse.map(({ p50 }, n) => p50 - (turns['bare proxy'][n]?.p50 ?? NaN)),
    );
    const what = `at most ${MAX_ADDED_MS} ms more than the bare proxy at the median, ${connections} connections`;
    return targetLine(ms <= MAX_ADDED_MS, what, `${ms.toFixed(2)} ms`);
  });
  const event = quantile(events.Gatehouse, 0.5) - quantile(events.direct, 0.5);
  const isQuick = event <= MAX_EVENT_MS;
  return [
    ...rates,
    ...added,
    targetLine(
      isQuick,
      `an event is forwarded within ${MAX_EVENT_MS} ms`,
      `${event.toFixed(2)} ms`,
    ),
    targetLine(
      bytes.Gatehouse <= MAX_STREAM_BYTES,
      `an idle stream takes at most ${kilobytes(MAX_STREAM_BYTES)} kB`,
      `${kilobytes(bytes.Gatehouse)} kB`,
    ),
  ];
}

function ratioTo(turns: Measured['turns'], way: Way, other: Way): number {
  return median(
    turns[way].map(({ perSecond }, n) => perSecond / (turns[other][n]?.perSecond ?? NaN)),
  );
}

function kilobytes(bytes: number): string {
  return (bytes / 1000).toFixed(0);
}
