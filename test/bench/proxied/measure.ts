// Calls and streams directly, through a reverse proxy that only passes bytes on, and through Gatehouse, in turns.
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { freePorts } from '../../support/free-ports.ts';
import { openClient } from '../client.ts';
import { forCalls, forSeconds } from '../load.ts';
import type { Part } from '../part.ts';
import type { Phase } from '../progress.ts';
import {
  cpuTime,
  FLAGS,
  type ServerProcess,
  startProcess,
  untilPrinted,
} from '../server-process.ts';
import { type Place, startGatehouse } from '../subjects.ts';
import { callAtRate, callWhile } from './raw-calls.ts';
import {
  describeProxied,
  EVENT,
  LARGE,
  type Measured,
  type Pauses,
  quantile,
  SMALL,
  type Streams,
  type Turn,
  type Way,
  WAYS,
} from './report.ts';
import { COLLECTING, measurePauses, measureStreams, type Targets } from './streams.ts';

const FULL = {
  rounds: 5,
  turnSeconds: 0.4,
  maxWarmUpCalls: 40_000,
  perSecond: 1000,
  pacedSeconds: 1,
  streams: 1000,
  events: 200,
};
const QUICK: Effort = {
  rounds: 1,
  turnSeconds: 0.1,
  maxWarmUpCalls: 100,
  perSecond: 100,
  pacedSeconds: 0.1,
  streams: 20,
  events: 3,
};
type Effort = typeof FULL;

type Kind = {
  name: string;
  message: object;
  connections: readonly number[];
  /** Calls to each way before the first turn, until its code is compiled. New processes need more. */
  warmUpCalls: number;
  /** At a fixed rate. */
  isPaced?: true;
};

export function callOf(name: string, argumentsOf: object): object {
  return { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: argumentsOf } };
}

const smallCall = callOf('fixed', { body: 'small' });
const FIXED: readonly Kind[] = [
  { name: SMALL, message: smallCall, connections: [1, 16, 64], warmUpCalls: 40_000 },
  { name: SMALL, message: smallCall, connections: [16, 64], warmUpCalls: 0, isPaced: true },
  {
    name: LARGE,
    message: callOf('fixed', { body: 'large' }),
    connections: [16],
    warmUpCalls: 500,
  },
  {
    name: EVENT,
    message: callOf('fixed', { body: 'event' }),
    connections: [16],
    warmUpCalls: 10_000,
  },
];
const SDK: Kind = {
  name: 'SDK server',
  message: callOf('member_visits', { memberId: 'M0600' }),
  connections: [16],
  warmUpCalls: 10_000,
};
export const FIXED_SERVER = 'test/bench/proxied/upstream.ts';
const SDK_SERVER = 'test/bench/unprotected-server.ts';

const STREAMS = 'proxied: events and idle streams';
const SECONDS_OF_STREAMS = 12;
const PAUSES = 'proxied: pauses of 16 MB JSON';
const SECONDS_OF_PAUSES = 3;
const hugeCall = callOf('fixed', { body: 'huge' });
const WARM_UP_CONNECTIONS = 16;

function phaseOf({ name, isPaced }: Kind, { perSecond }: Effort): string {
  return `proxied: ${name}${isPaced ? `, ${perSecond} calls a second` : ''}`;
}

function expected(kind: Kind, effort: Effort): Phase {
  const turns = kind.connections.length * effort.rounds * turnSeconds(kind, effort);
  const warmUp = warmUpCalls(kind, effort) / CALLS_PER_SECOND;
  return [phaseOf(kind, effort), 1 + WAYS.length * (warmUp + turns)];
}

function turnSeconds({ isPaced }: Kind, effort: Effort): number {
  return isPaced ? effort.pacedSeconds : effort.turnSeconds;
}

/** Of small calls, about, while the code is compiled. */
const CALLS_PER_SECOND = 4000;

function warmUpCalls({ warmUpCalls: wanted }: Kind, { maxWarmUpCalls }: Effort): number {
  return Math.min(wanted, maxWarmUpCalls);
}

export const proxiedCalls: Part = {
  phases({ quick }) {
    const effort = quick ? QUICK : FULL;
    return [
      ...FIXED.map((kind) => expected(kind, effort)),
      [STREAMS, quick ? 3 : SECONDS_OF_STREAMS],
      [PAUSES, quick ? 1 : SECONDS_OF_PAUSES],
      expected(SDK, effort),
    ];
  },
  async measure(place, begin) {
    const effort = place.quick ? QUICK : FULL;
    const measured: Measured[] = [];
    const measure = async (targets: Targets, kind: Kind) => {
      begin(phaseOf(kind, effort));
      measured.push(...(await measureKind(targets, kind, effort)));
    };
    const fixed = await openTargets(place, FIXED_SERVER);
    let streams: Streams;
    let pauses: Pauses;
    try {
      for (const kind of FIXED) await measure(fixed.targets, kind);
      begin(STREAMS);
      streams = await measureStreams(fixed.targets, fixed.upstream, effort);
      begin(PAUSES);
      pauses = await measurePauses(fixed.targets, hugeCall, effort.rounds);
    } finally {
      await fixed.stop();
    }
    const sdk = await openTargets(place, SDK_SERVER);
    try {
      await measure(sdk.targets, SDK);
    } finally {
      await sdk.stop();
    }
    return describeProxied(measured, streams, pauses);
  },
};

export async function openTargets(place: Place, script: string) {
  const [serverPort, barePort] = await freePorts(2);
  const directory = await mkdtemp(join(place.root, 'proxied-'));
  const isFixed = script === FIXED_SERVER;
  const origin = `http://${isFixed ? '127.0.0.1' : 'localhost'}:${serverPort}`;
  const upstream = startProcess(script, { args: [String(serverPort)], directory });
  const flags = [...FLAGS, ...COLLECTING];
  const bareDirectory = await mkdtemp(join(place.root, 'proxied-'));
  const bare = startProcess('test/bench/proxied/reverse-proxy.ts', {
    args: [String(barePort), origin],
    flags,
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
      flags,
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
  const warmUp = warmUpCalls(kind, effort);
  if (warmUp > 0)
    for (const way of WAYS)
      await takeSaturated(targets[way], kind.message, WARM_UP_CONNECTIONS, forCalls(warmUp));
  const all: Measured[] = [];
  for (const connections of kind.connections) {
    const turns: Measured['turns'] = { direct: [], 'bare proxy': [], Gatehouse: [] };
    for (let round = 0; round < effort.rounds; round += 1)
      for (const way of round % 2 === 0 ? WAYS : WAYS.toReversed())
        turns[way].push(await takeTurn(targets[way], kind, connections, effort));
    const pace = kind.isPaced ? { perSecond: effort.perSecond } : {};
    all.push({ kind: kind.name, connections, ...pace, turns });
  }
  return all;
}

function takeTurn(
  target: Targets[Way],
  { message, isPaced }: Kind,
  connections: number,
  { turnSeconds, pacedSeconds, perSecond }: Effort,
): Promise<Turn> {
  if (!isPaced) return takeSaturated(target, message, connections, forSeconds(turnSeconds));
  const pace = { perSecond, connections, seconds: pacedSeconds };
  return summarize([target.server], () => callAtRate(target, message, pace));
}

/** The processor time is that of the target's server, and of those that it asks. */
export function takeSaturated(
  target: Targets[Way] & { asks?: ServerProcess },
  message: object,
  connections: number,
  mayStart: () => boolean,
): Promise<Turn> {
  const servers = [target.server, ...(target.asks ? [target.asks] : [])];
  return summarize(servers, async () => {
    const calling = Array.from({ length: connections }, () => callWhile(target, message, mayStart));
    // The others must not disturb the next turn.
    await Promise.allSettled(calling);
    return (await Promise.all(calling)).flat();
  });
}

async function summarize(
  servers: readonly ServerProcess[],
  act: () => Promise<number[]>,
): Promise<Turn> {
  const cpu = () => servers.reduce((sum, { pid }) => sum + cpuTime(pid), 0);
  const [begun, spent] = [performance.now(), cpu()];
  const times = (await act()).sort((a, b) => a - b);
  const elapsed = (performance.now() - begun) / 1000;
  return {
    perSecond: times.length / elapsed,
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
    cpu: (1000 * (cpu() - spent)) / times.length,
  };
}
