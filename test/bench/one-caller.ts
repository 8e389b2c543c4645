// What one caller at the lowest level costs all others: memory of the process, and delays of small requests.
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parse, stringify } from 'yaml';
import { openClient } from './client.ts';
import type { Part } from './part.ts';
import { residentMemory } from './server-process.ts';
import { type Place, type StartedGatehouse, startGatehouse } from './subjects.ts';
import { atMost } from './targets.ts';
import { textTable } from './text.ts';

const MAX_MEMORY_MB = 150;
const MAX_DELAY_MS = 200;
const MEGABYTE = 1024 * 1024;
const ANSWER_BYTES = 15 * MEGABYTE;
const FULL = { bodies: 100, uploads: 400, unread: 80, seconds: 8, warmUp: 1000 };
const QUICK = { bodies: 3, uploads: 3, unread: 2, seconds: 0.5, warmUp: 8 };
/** Of calls before the measurement, because the first ones of a process also wait for its compiler. */
const WARM_UP_CONNECTIONS = 8;
const PROBE_START_MS = 1000;

/** A process of its own, because the load keeps this one busy. */
const PROBE = join(import.meta.dirname, 'probe.ts');
const DEVELOPMENT_FILE = join(import.meta.dirname, '../../config/development.yaml');

type Attack = { what: string; count: keyof typeof FULL; body: string; isUnfinished?: boolean };

const call = (given: string, id = 1) =>
  `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"text","arguments":{"a":${given}}}}`;
const repeated = (unit: string, bytes: number) =>
  `[${Array(Math.floor(bytes / (unit.length + 1)))
    .fill(unit)
    .join(',')}]`;

const ATTACKS: Attack[] = [
  {
    what: 'bodies of 1 MB that expand',
    count: 'bodies',
    body: call(repeated('[{}]', MEGABYTE - 200)),
  },
  {
    what: 'bodies of 1 MB that expand as far as they may',
    count: 'bodies',
    body: call(`[${repeated('[{}]', 330_000)},"${'x'.repeat(MEGABYTE - 331_000)}"]`),
  },
  {
    what: 'unfinished uploads of 1 MB',
    count: 'uploads',
    body: call(`"${'x'.repeat(MEGABYTE - 200)}"`),
    isUnfinished: true,
  },
  { what: 'unread responses of 15 MB', count: 'unread', body: call('"text"') },
];

export const oneCaller: Part = {
  phases: ({ quick }) => ATTACKS.map(({ what }) => [what, quick ? 3 : 20]),
  async measure(place, begin) {
    const effort = place.quick ? QUICK : FULL;
    const upstream = await startUpstream();
    const rows: { what: string; memory: number; delay: number; quiet: number }[] = [];
    try {
      for (const attack of ATTACKS) {
        begin(attack.what);
        rows.push({
          what: attack.what,
          ...(await measureAttack(place, upstream.url, attack, effort)),
        });
      }
    } finally {
      upstream.stop();
    }
    const table = textTable(
      ['one caller sends at once', 'more memory (MB)', 'slowest small request (ms)', 'and before'],
      rows.map(({ what, memory, delay: slowest, quiet }) => [
        what,
        memory.toFixed(0),
        slowest.toFixed(0),
        quiet.toFixed(0),
      ]),
    );
    return {
      text: `What one caller at the lowest level costs the others\n${table}`,
      targets: rows.flatMap(({ what, memory, delay: slowest, quiet }) => [
        atMost(`memory with ${what}`, MAX_MEMORY_MB, 'MB', memory),
        atMost(`delay of others with ${what}`, MAX_DELAY_MS, 'ms', slowest - quiet),
      ]),
    };
  },
};

/** Answers every call with a large text at once. */
async function startUpstream() {
  const answer = (result: object) => Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, result }));
  const large = answer({ content: [{ type: 'text', text: 'x'.repeat(ANSWER_BYTES) }] });
  const small = answer({ content: [], tools: [] });
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk) => chunks.push(chunk));
    req.on('end', () => {
      const sent = Buffer.concat(chunks).toString();
      const body = sent.includes('"a":"text"') ? large : small;
      res.writeHead(200, { 'content-type': 'application/json' }).end(body);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${port}/mcp`, stop };
}

/** A new process, because memory that one attack took may stay. */
async function measureAttack(
  place: Place,
  url: string,
  { count, body, isUnfinished = false }: Attack,
  effort: typeof FULL,
): Promise<{ memory: number; delay: number; quiet: number }> {
  const config = join(await mkdtemp(join(place.root, 'one-caller-')), 'gatehouse.yaml');
  const upstream = { url, defaultLevel: 'analytics' };
  const file = { ...parse(await readFile(DEVELOPMENT_FILE, 'utf8')), resourceServer: { upstream } };
  await writeFile(config, stringify(file));
  const gatehouse = await startGatehouse('sqlite', place, { config });
  const sockets: Socket[] = [];
  let probe: Probe | undefined;
  try {
    const { accessToken } = await (await openClient(gatehouse)).openFamily();
    await warmUp(gatehouse.resource, accessToken, effort.warmUp);
    probe = startProbe(gatehouse);
    await delay(PROBE_START_MS);
    const quiet = await watch(gatehouse.server, probe, effort.seconds / 2);
    const target = new URL(gatehouse.resource);
    const head = `POST ${target.pathname} HTTP/1.1\r\nHost: ${target.host}\r\nAuthorization: Bearer ${accessToken}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: ${body.length}\r\n\r\n`;
    const bytes = Buffer.from(head + (isUnfinished ? body.slice(0, -1) : body));
    for (let n = 0; n < effort[count]; n += 1) {
      const socket = connect(Number(target.port), target.hostname).on('error', () => undefined);
      socket.pause();
      socket.write(bytes);
      sockets.push(socket);
    }
    const attacked = await watch(gatehouse.server, probe, effort.seconds);
    return {
      memory: (attacked.memory - quiet.memory) / MEGABYTE,
      delay: attacked.slowest,
      quiet: quiet.slowest,
    };
  } finally {
    for (const socket of sockets) socket.destroy();
    probe?.stop();
    await gatehouse.stop();
  }
}

async function warmUp(url: string, token: string, calls: number): Promise<void> {
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  };
  const body = call('1');
  const callOneByOne = async () => {
    for (let sent = 0; sent < calls / WARM_UP_CONNECTIONS; sent += 1)
      await (await fetch(url, { method: 'POST', headers, body })).text();
  };
  await Promise.all(Array.from({ length: WARM_UP_CONNECTIONS }, callOneByOne));
}

type Probe = {
  /** The milliseconds of each small request since the last call. */
  read(): number[];
  stop(): void;
};

function startProbe({ resource }: StartedGatehouse): Probe {
  const address = new URL('/livez', resource).href;
  const child = spawn(process.execPath, [PROBE, address], { stdio: ['ignore', 'pipe', 'inherit'] });
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
  return {
    read() {
      const lines = printed.split('\n').filter(Boolean);
      printed = '';
      return lines.map(Number);
    },
    stop: () => void child.kill(),
  };
}

const READ_INTERVAL_MS = 100;

/** The most memory, and the slowest of small requests of others. A process that ends counts as infinitely slow. */
async function watch(server: StartedGatehouse['server'], probe: Probe, seconds: number) {
  probe.read();
  let memory = 0;
  for (let left = seconds * 1000; left > 0; left -= READ_INTERVAL_MS) {
    memory = Math.max(memory, await residentMemory(server));
    await delay(READ_INTERVAL_MS);
  }
  return { memory, slowest: Math.max(0, ...probe.read()) };
}
