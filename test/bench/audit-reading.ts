// Reads an audit log of a million items: pages by each filter, and exports, with the memory of the process that sends them.
import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { spawnGatehouse } from '../management/command-line.ts';
import { createDeployment, startDeployment, type Deployment, STORES } from '../support/system.ts';
import { openSystemStore } from '../support/system-store.ts';
import { until } from '../support/until.ts';
import { writeAuditItems } from './audit-items.ts';
import { readFlags, wholeNumber } from './command.ts';

const HELP = `npm run bench:audit [-- --items 1000000]

Writes items into SQLite and into Redis, starts a server on each, and prints how long pages take (median and slowest of ten), and how many items a
second an export has, with the resident memory of the server before and at most.`;

const ROUNDS = 10;
const DAY = 86_400;
/** Hundredths of a second in two seconds. */
const IDLE_TICKS = 20;

const { items: wanted = '1000000', quick } = readFlags(HELP, { items: { type: 'string' } });
const ITEMS = quick ? 20_000 : wholeNumber('items', wanted, 1000, 5_000_000);

for (const store of STORES) {
  const file = { audit: { keepCalls: { items: 10_000_000 } } };
  const place = await createDeployment({ store, file });
  try {
    await (await startDeployment(place)).stop();
    await fill(place);
    await measure(store, place);
  } finally {
    await place.release();
  }
}

async function fill({ facts }: Deployment): Promise<void> {
  const { store } = await openSystemStore(facts);
  await writeAuditItems(store, ITEMS, (n) => ({
    account: `account-${n % 500}`.padEnd(27, 'x'),
    clientId: `https://app-${n % 40}.example.com/client.json`,
    connector: `connector-${n % 60}`,
    grantId: `grant-${n % 2000}`,
  }));
  await store.close();
}

async function measure(store: string, { facts, environment }: Deployment): Promise<void> {
  const env = { PATH: process.env.PATH ?? '', ...environment };
  const server = spawnGatehouse(['start'], env as Record<string, string>);
  server.stdout.resume();
  server.stderr.resume();
  const exited = once(server, 'exit');
  const api = `${facts.management}/api/v1/audit`;
  const headers = { authorization: `Bearer ${facts.managementKey}` };
  try {
    await until('the server', async () => {
      const answer = await fetch(`${facts.management}/livez`).catch(() => undefined);
      return answer?.ok;
    });
    await untilIdle(server.pid ?? 0);
    const since = new Date(Date.now() - 15 * DAY * 1000).toISOString();
    for (const query of [
      '',
      'account=account-77xxxxxxxxxxxxxxxxx',
      'client=https://app-3.example.com/client.json',
      'connector=connector-5',
      'tool=rare_tool',
      'tool=none',
      'event=signed_in',
      'outcome=refused',
      `until=${since}&tool=tool_4`,
    ]) {
      const read = async (after = '') => {
        const from = performance.now();
        const answer = await fetch(`${api}?limit=50&${query}${after}`, { headers });
        const page = (await answer.json()) as { items: unknown[]; next?: string };
        return { ...page, ms: performance.now() - from };
      };
      const first: number[] = [];
      const next: number[] = [];
      for (let round = 0; round < ROUNDS; round += 1) {
        const page = await read();
        first.push(page.ms);
        if (page.next) next.push((await read(`&after=${page.next}`)).ms);
      }
      console.log(`${store} ${query || 'no filter'}: first ${shown(first)}, next ${shown(next)}`);
    }
    for (const query of ['format=jsonl', 'format=csv', 'format=jsonl&outcome=refused'])
      console.log(
        `${store} export ${query}: ${await exported(`${api}/export?${query}`, headers, server.pid ?? 0)}`,
      );
  } finally {
    server.kill();
    await exited;
  }
}

function shown(times: readonly number[]): string {
  if (times.length === 0) return '-';
  const sorted = times.toSorted((one, other) => one - other);
  const [median = 0, slowest = 0] = [sorted[Math.floor(sorted.length / 2)], sorted.at(-1)];
  return `${median.toFixed(0)} ms (${slowest.toFixed(0)})`;
}

async function exported(url: string, headers: Record<string, string>, pid: number) {
  const before = residentMegabytes(pid);
  let [most, lines, bytes] = [before, 0, 0];
  const from = performance.now();
  const timer = setInterval(() => (most = Math.max(most, residentMegabytes(pid))), 100);
  const answer = await fetch(url, { headers });
  for await (const chunk of answer.body ?? []) {
    bytes += chunk.length;
    for (const byte of chunk) if (byte === 0x0a) lines += 1;
  }
  clearInterval(timer);
  const seconds = (performance.now() - from) / 1000;
  return `${lines} lines, ${Math.round(bytes / 1e6)} MB, ${Math.round(lines / seconds)} a second, memory ${before} MB, at most ${most} MB`;
}

/** The server signs what it finds at its start. */
async function untilIdle(pid: number): Promise<void> {
  for (let before = 0; ;) {
    const used = processorTicks(pid);
    if (used - before < IDLE_TICKS) return;
    before = used;
    await delay(2000);
  }
}

function processorTicks(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ');
  return Number(fields[13]) + Number(fields[14]);
}

function residentMegabytes(pid: number): number {
  const [, kilobytes = '0'] =
    /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kilobytes) / 1024);
}
