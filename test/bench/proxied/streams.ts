// The delay of an event on a stream, and the memory of idle streams.
import { setTimeout as delay } from 'node:timers/promises';
import { until } from '../../support/until.ts';
import { residentMemory, type ServerProcess, untilPrinted } from '../server-process.ts';
import { callWhile, openStream, type Target } from './raw-calls.ts';
import { type Pauses, type ProxyWay, PROXY_WAYS, type Streams, type Way, WAYS } from './report.ts';

export type Targets = Record<Way, Target & { server: ServerProcess }>;

/** Flags of a process whose garbage is collected before its memory is read. */
export const COLLECTING = ['--expose-gc', '--import', './test/bench/proxied/collect-garbage.ts'];

const READ_AFTER_MS = 300;
const MAX_READINGS = 10;
/** Two readings that differ by less are the same. */
const TOLERANCE_BYTES = 500_000;

export async function measureStreams(
  targets: Targets,
  upstream: ServerProcess,
  { streams, events }: { streams: number; events: number },
): Promise<Streams> {
  const measured = { events: await delaysOfEvents(targets, upstream, events) };
  const bytes: Record<ProxyWay, number> = { 'bare proxy': NaN, Gatehouse: NaN };
  for (const way of PROXY_WAYS) bytes[way] = await bytesOfStream(targets[way], streams);
  return { ...measured, bytes, streams };
}

async function delaysOfEvents(
  targets: Targets,
  upstream: ServerProcess,
  events: number,
): Promise<Streams['events']> {
  const delays: Streams['events'] = { direct: [], 'bare proxy': [], Gatehouse: [] };
  const open = await Promise.all(
    WAYS.map((way) => openStream(targets[way], (ms) => delays[way].push(ms))),
  );
  for (let sent = 1; sent <= events; sent += 1) {
    process.kill(upstream.pid, 'SIGUSR2');
    await until('an event', () => WAYS.every((way) => delays[way].length >= sent), 10);
  }
  for (const stream of open) stream.close();
  return delays;
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

/** Resident memory without garbage, as soon as it no longer changes. */
async function settledMemory(server: ServerProcess): Promise<number> {
  let last = NaN;
  for (let reading = 0; reading < MAX_READINGS; reading += 1) {
    await collectGarbage(server);
    // Pages are returned to the system some time afterwards.
    await delay(READ_AFTER_MS);
    const bytes = await residentMemory(server);
    if (Math.abs(bytes - last) < TOLERANCE_BYTES) return bytes;
    last = bytes;
  }
  return last;
}

/** Returns the milliseconds of the longest pause of its event loop since the last time. */
async function collectGarbage(server: ServerProcess): Promise<number> {
  const collected = server.output().match(/garbage collected/g)?.length ?? 0;
  process.kill(server.pid, 'SIGUSR2');
  await untilPrinted(server, new RegExp(`(garbage collected ${collected + 1} times)`));
  return Number(await untilPrinted(server, new RegExp(`longest pause ${collected + 1}: (.*) ms`)));
}

/** Milliseconds that nothing else runs in a proxy during a call, for each of `rounds` calls. */
export async function measurePauses(
  targets: Targets,
  message: object,
  rounds: number,
): Promise<Pauses> {
  const pauses: Pauses = { 'bare proxy': [], Gatehouse: [] };
  for (let round = 0; round < rounds; round += 1)
    for (const way of PROXY_WAYS) {
      await collectGarbage(targets[way].server);
      let calls = 0;
      await callWhile(targets[way], message, () => (calls += 1) === 1);
      pauses[way].push(await collectGarbage(targets[way].server));
    }
  return pauses;
}
