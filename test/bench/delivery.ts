// The delivery of the audit log while items are stored at a rate: the receiver is down half of the time, and the process that delivers is killed again
// and again.
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parse } from 'yaml';
import { auditItem } from '../../src/audit/audit.ts';
import { appendAudit, lastAuditNumber } from '../../src/audit/audit-log.ts';
import { findProgress } from '../../src/audit/delivery/progress.ts';
import { openStore } from '../../src/store/open.ts';
import { type AuditReceiver, itemsIn, startAuditReceiver } from '../support/audit-receiver.ts';
import { startRedis } from '../support/redis-server.ts';
import { waitForStore } from '../support/scale-out/patient-timeouts.ts';
import { until } from '../support/until.ts';
import type { DeliveryOptions } from './options.ts';
import type { Part } from './part.ts';
import { type Place, startGatehouseOn, type StartedGatehouse } from './subjects.ts';
import { atLeast, atMost, type Report } from './targets.ts';

const CATCH_UP_SECONDS = 400;
/** Five minutes after many failures in a row. */
const MAX_PAUSE_SECONDS = 400;
const MAX_TAKEOVER_SECONDS = 30;
const MIN_RATE_RATIO = 0.95;
const PHASE = 'delivery of the audit log';
const DEVELOPMENT = join(import.meta.dirname, '../../config/development.yaml');

/** Starting the processes, and what arrives after the last item was stored. */
const OTHER_SECONDS = 30;

export const delivery: Part = {
  phases: ({ delivery: { seconds } }) => [[PHASE, seconds + OTHER_SECONDS]],
  measure(place, begin, options) {
    begin(PHASE);
    return measureDelivery(place, options.delivery);
  },
};

/** What arrived. */
type Arrivals = {
  numbers: Set<number>;
  /** Items that came again. */
  repeated: number;
  /** Items that came before an earlier one had come. */
  early: number;
  /** Batches whose id had another body before. */
  changed: number;
  attempts: number;
  accepted: number;
  /** The process of the last attempt, and when it was, in milliseconds. */
  by: string;
  at: number;
};

async function measureDelivery(
  place: Place,
  { seconds: planned, rate, kills, downSeconds }: DeliveryOptions,
): Promise<Report> {
  const redis = await startRedis();
  const receiver = await startAuditReceiver();
  const arrivals = follow(receiver, downSeconds);
  const secret = randomBytes(32).toString('hex');
  const start = async (name: string) =>
    startGatehouseOn(redis.url, place, { config: await settings(place, receiver, secret, name) });
  const processes = new Map<string, StartedGatehouse>();
  const writing = new AbortController();
  const restoreTimeouts = waitForStore();
  let written: Promise<void> | undefined;
  try {
    for (const name of ['first', 'second']) processes.set(name, await start(name));
    const address = { kind: 'redis', url: redis.url } as const;
    const store = await openStore(address, { secret, dataDir: place.root });
    written = write(store, rate, writing.signal);
    const begun = performance.now();
    const untilSecond = (second: number) =>
      delay(Math.max(0, begun + second * 1000 - performance.now()));
    const takeovers: number[] = [];
    for (let kill = 0; kill < kills; kill += 1) {
      await untilSecond((planned * kill) / kills);
      const before = arrivals.attempts;
      await until('an attempt', () => arrivals.attempts > before, CATCH_UP_SECONDS);
      // Also in the middle of an attempt.
      await delay(Math.random() * 1500);
      const { by } = arrivals;
      const killed = processes.get(by);
      if (!killed) throw new Error(`there is no process ${by}`);
      process.kill(killed.server.pid, 'SIGKILL');
      const killedAt = performance.now();
      processes.delete(by);
      const name = `after kill ${kill + 1}`;
      const restarted = start(name);
      // The pause after failures is no part of the takeover.
      const pause = ((await findProgress(store, 'receiver'))?.retryAt ?? 0) - Date.now() / 1000;
      const dueAt = performance.now() + Math.max(0, pause) * 1000;
      const isAnother = () => arrivals.by !== by && arrivals.at > killedAt;
      await until('another process', isAnother, MAX_PAUSE_SECONDS);
      takeovers.push((arrivals.at - Math.max(killedAt, Math.min(dueAt, arrivals.at))) / 1000);
      processes.set(name, await restarted);
    }
    await untilSecond(planned);
    writing.abort();
    await written;
    const seconds = (performance.now() - begun) / 1000;
    const last = await lastAuditNumber(store);
    const stopped = performance.now();
    await until('the rest', () => arrivals.numbers.size >= last, CATCH_UP_SECONDS).catch(
      () => undefined,
    );
    const rest = (performance.now() - stopped) / 1000;
    await store.close();
    return report(arrivals, { last, kills, seconds, rest, takeovers, rate });
  } finally {
    writing.abort();
    await written?.catch(() => undefined);
    restoreTimeouts();
    await Promise.all([...processes.values()].map((each) => each.stop()));
    await receiver.stop();
    await redis.stop();
  }
}

async function settings(
  { root }: Place,
  { url }: AuditReceiver,
  secret: string,
  name: string,
): Promise<string> {
  const secretFile = join(root, 'delivery-secret');
  await writeFile(secretFile, secret);
  const signing = join(root, 'delivery-signing');
  await writeFile(signing, `whsec_${Buffer.alloc(32, 's').toString('base64')}`);
  const target = {
    id: 'receiver',
    kind: 'webhook',
    url,
    privateNetwork: true,
    secretFile: signing,
    headers: { 'x-process': name },
  };
  const file = join(root, `delivery-${name}.json`);
  const content = {
    ...parse(readFileSync(DEVELOPMENT, 'utf8')),
    secretFile,
    audit: { delivery: [target] },
  };
  await writeFile(file, JSON.stringify(content));
  return file;
}

function follow(receiver: AuditReceiver, downSeconds: number): Arrivals {
  const started = performance.now();
  const digests = new Map<unknown, number>();
  const arrivals: Arrivals = {
    numbers: new Set(),
    repeated: 0,
    early: 0,
    changed: 0,
    attempts: 0,
    accepted: 0,
    by: '',
    at: 0,
  };
  let reached = 0;
  receiver.answerWith((sent, response) => {
    arrivals.attempts += 1;
    arrivals.by = String(sent.headers['x-process']);
    arrivals.at = performance.now();
    const id = sent.headers['webhook-id'];
    const size = sent.body.length;
    if ((digests.get(id) ?? size) !== size) arrivals.changed += 1;
    digests.set(id, size);
    // Otherwise all bodies would be kept.
    receiver.deliveries.length = 0;
    if (Math.floor((performance.now() - started) / (downSeconds * 1000)) % 2 === 1) {
      response.destroy();
      return undefined;
    }
    for (const { number } of itemsIn(sent)) {
      if (arrivals.numbers.has(number)) arrivals.repeated += 1;
      if (number > reached + 1) arrivals.early += 1;
      reached = Math.max(reached, number);
      arrivals.numbers.add(number);
    }
    arrivals.accepted += 1;
    return { status: 204 };
  });
  return arrivals;
}

async function write(
  store: Awaited<ReturnType<typeof openStore>>,
  rate: number,
  signal: AbortSignal,
): Promise<void> {
  const started = performance.now();
  const now = () => Date.now() / 1000;
  for (let written = 0; !signal.aborted;) {
    const due = Math.floor(((performance.now() - started) / 1000) * rate) - written;
    const count = Math.min(due, 200);
    const items = Array.from({ length: count }, () => ({
      part: 'bulk' as const,
      item: auditItem(
        { now },
        {
          event: 'call',
          outcome: 'answered',
          account: 'person-of-the-benchmark',
          tool: 'list_orders',
          ms: 12,
        },
      ),
    }));
    await appendAudit(store, items);
    written += count;
    await delay(20);
  }
}

type Totals = {
  last: number;
  kills: number;
  seconds: number;
  rest: number;
  takeovers: number[];
  /** Items a second, as wanted. */
  rate: number;
};

function report(
  arrivals: Arrivals,
  { last, kills, seconds, rest, takeovers, rate }: Totals,
): Report {
  const { numbers, repeated, early, changed, attempts, accepted } = arrivals;
  const slowest = Math.max(...takeovers);
  // A checkpoint may have come after the last one.
  const arrived = [...numbers].filter((number) => number <= last).length;
  const missing = last - arrived;
  return {
    text: [
      `The audit log, delivered for ${seconds.toFixed(0)} s while the receiver was down half of the time and ${kills} processes were killed`,
      `  ${last} items stored (${(last / seconds).toFixed(0)} a second), ${arrived} arrived, ${repeated} of them again`,
      `  ${attempts} attempts, ${accepted} accepted; the rest arrived ${rest.toFixed(1)} s after the last item was stored`,
      `  a process delivered again ${(takeovers.reduce((sum, each) => sum + each, 0) / takeovers.length).toFixed(1)} s after a kill (mean), ${slowest.toFixed(1)} s at most`,
    ].join('\n'),
    targets: [
      atLeast('audit items stored a second ÷ wanted', MIN_RATE_RATIO, last / seconds / rate),
      atMost('audit items that are missing', 0, 'items', missing),
      atMost('audit items out of order', 0, 'items', early),
      atMost('batches whose body changed under the same id', 0, 'batches', changed),
      atMost('a process delivers after a kill', MAX_TAKEOVER_SECONDS, 's', slowest),
    ],
  };
}
