// One Redis server: version, persistence, eviction, memory, latency, clock and, with Sentinel, what it does alone.
import { Cluster, type Redis } from 'ioredis';
import type { RedisAddress, RedisClient } from '../store/redis-client.ts';
import { clockFinding } from './clocks.ts';
import { type Finding, orOk, type Words, wordsOf } from './finding.ts';

/** Names and values of INFO. */
type Info = Record<string, string>;

const OLDEST = [6, 2] as const;
const FULL = 0.95;
const NEARLY_FULL = 0.8;
const PINGS = 21;
const SLOW_MS = 50;
/** Seconds. */
const LONGEST_LAG = 10;

export function mastersOf(client: RedisClient): Redis[] {
  return client instanceof Cluster ? client.nodes('master') : [client];
}

export async function redisFindings(redis: Redis, store: RedisAddress): Promise<Finding[]> {
  const { host, port } = redis.options;
  const about = `Redis ${store.kind === 'sentinel' ? `master ${store.name}` : `${host}:${port}`}`;
  const info = infoOf(await redis.info());
  const asked = Date.now();
  const [seconds = 0, micros = 0] = await redis.time();
  const theirs = Number(seconds) * 1000 + Number(micros) / 1000;
  return [
    ...versionFindings(wordsOf('redis-version', about), info),
    ...(await persistenceFindings(wordsOf('persistence', about), redis, info)),
    ...evictionFindings(wordsOf('eviction', about), info),
    ...memoryFindings(wordsOf('memory', about), info),
    ...(await latencyFindings(wordsOf('latency', about), redis)),
    clockFinding(about, theirs, { asked, answered: Date.now() }),
    ...(store.kind === 'sentinel' ? await replicaFindings(about, redis, info) : []),
  ];
}

function infoOf(text: string): Info {
  const lines = text.split('\r\n').map((line) => /^([^#:]+):(.*)$/.exec(line));
  return Object.fromEntries(lines.flatMap((match) => (match ? [[match[1], match[2]]] : [])));
}

/** Undefined where Redis does not show its configuration, as hosted ones do not. */
async function configured(redis: Redis, name: string): Promise<string | undefined> {
  const answer = await redis.config('GET', name).catch(() => undefined);
  return Array.isArray(answer) && answer[1] !== undefined ? String(answer[1]) : undefined;
}

function versionFindings(words: Words, info: Info): Finding[] {
  const version = info.redis_version ?? '0.0';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const isOld = major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]);
  if (!isOld) return [words.ok(`version ${version}`)];
  return [
    words.problem({
      what: `Redis ${version} is older than ${OLDEST.join('.')}`,
      why: 'it does not know commands that Gatehouse needs',
      remedy: 'update Redis',
    }),
  ];
}

async function persistenceFindings(words: Words, redis: Redis, info: Info): Promise<Finding[]> {
  if (info.aof_enabled !== '1')
    return [
      words.warning({
        what: 'the append-only file is off',
        why: 'after a crash Redis has lost what was written since its last snapshot: connections end, and what was revoked may be back',
        remedy: 'set appendonly yes (CONFIG SET appendonly yes, and in the configuration file)',
      }),
    ];
  if (info.aof_last_write_status === 'err' || info.aof_last_bgrewrite_status === 'err')
    return [
      words.problem({
        what: 'Redis could not write its append-only file',
        why: 'what is answered is not on the disk, and writes are refused',
        remedy: 'see the log of Redis; usually its disk is full',
      }),
    ];
  const flushes = await configured(redis, 'appendfsync');
  if (flushes !== 'no') return [words.ok('the append-only file is on')];
  return [
    words.warning({
      what: 'appendfsync is no',
      why: 'after a power cut half a minute of writes is gone, revocations among them',
      remedy: 'set appendfsync everysec',
    }),
  ];
}

function evictionFindings(words: Words, info: Info): Finding[] {
  const policy = info.maxmemory_policy ?? 'unknown';
  if (policy === 'noeviction') return [words.ok('nothing is evicted')];
  const trouble = {
    what: `maxmemory-policy is ${policy}`,
    why: 'when memory is short Redis drops records at will: people are disconnected without a reason',
    remedy: 'set maxmemory-policy noeviction',
  };
  return [policy.startsWith('allkeys-') ? words.problem(trouble) : words.warning(trouble)];
}

function memoryFindings(words: Words, info: Info): Finding[] {
  const most = Number(info.maxmemory) || Number(info.total_system_memory);
  const share = most > 0 ? Number(info.used_memory) / most : 0;
  const percent = `${Math.round(share * 100)} % of its memory`;
  if (share < NEARLY_FULL) return [words.ok(`Redis uses ${percent}`)];
  const trouble = {
    what: `Redis uses ${percent}`,
    why: 'when it is full nobody can connect any more, or refresh a token',
    remedy: 'give it more memory (maxmemory), or a machine of its own',
  };
  return [share < FULL ? words.warning(trouble) : words.problem(trouble)];
}

/** The middle of several, one after the other: one slow answer says nothing. */
async function latencyFindings(words: Words, redis: Redis): Promise<Finding[]> {
  const times: number[] = [];
  for (let turn = 0; turn < PINGS; turn++) {
    const started = performance.now();
    await redis.ping();
    times.push(performance.now() - started);
  }
  const middle = times.sort((a, b) => a - b)[Math.floor(PINGS / 2)] ?? 0;
  const text = `Redis answers in ${middle.toFixed(1)} ms`;
  if (middle < SLOW_MS) return [words.ok(text)];
  return [
    words.warning({
      what: text,
      why: 'a call waits for it several times, and after 0.8 s Gatehouse gives up',
      remedy: 'put Redis near Gatehouse, and see whether it or its machine is overloaded',
    }),
  ];
}

/** A master that was replaced takes writes, and loses them, until it may not write alone. */
async function replicaFindings(about: string, redis: Redis, info: Info): Promise<Finding[]> {
  const words = wordsOf('replicas', about);
  const least = await configured(redis, 'min-replicas-to-write');
  const lag = await configured(redis, 'min-replicas-max-lag');
  if (least === undefined || lag === undefined)
    return [words.unknown('Redis does not show min-replicas-to-write')];
  const isLoose = Number(least) < 1 || Number(lag) > LONGEST_LAG;
  const loose = words.warning({
    what: `min-replicas-to-write is ${least} and min-replicas-max-lag ${lag}`,
    why: 'a master that was replaced goes on taking writes and loses them, revocations among them',
    remedy: 'set min-replicas-to-write 1 and min-replicas-max-lag 10 on every Redis server',
  });
  const alone = words.warning({
    what: 'the master has no replica',
    why: 'there is nobody to take over when it fails',
    remedy: 'start a replica, and see why the one before left',
  });
  const found = [...(isLoose ? [loose] : []), ...(info.connected_slaves === '0' ? [alone] : [])];
  return orOk(found, words.ok('the master writes only with a replica'));
}
