import { constants } from 'node:fs';
import { access, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Cluster, type Redis } from 'ioredis';
import { isLoopback } from '../settings/addresses.ts';
import type { Settings } from '../settings/settings.ts';
import { version } from '../version.ts';
import { tlsFault } from '../tls-errors.ts';
import { networkNotice } from '../store/network-file-system.ts';
import { readEntry } from '../store/sqlite-database.ts';
import { type KeysReport, reportKeys } from '../store/stored-keys.ts';
import {
  closeRedis,
  connectRedis,
  connectSubscriber,
  type RedisAddress,
  type RedisClient,
} from '../store/redis-client.ts';
import { isRefusal, redisFault, RIGHTS } from '../store/redis-errors.ts';
import {
  CommandsRefused,
  NO_EVICTION,
  requireCommands,
  waitRefusal,
} from '../store/redis-requirements.ts';
import { checkClock } from './clock.ts';
import type { ConfiguredDeployment } from './deployment.ts';
import { type Info, redisService, type RedisService } from './redis-services.ts';
import {
  type Finding,
  findingAbout,
  type FindingFactory,
  type Findings,
  flatten,
  okIfNone,
} from './report.ts';
import { STORE_TIMEOUTS } from '../store/timeout.ts';

const OUT_OF_SPACE = 'when it is full, nobody can connect or refresh a token';

export async function checkStore({
  settings,
  maxRedisLatency,
}: ConfiguredDeployment): Promise<Finding[]> {
  const { store } = settings;
  if (store.kind === 'sqlite') {
    const file = await checkFile(store.file);
    if (file.outcome === 'problem') return [file];
    const read = async (name: string) => readEntry(store.file, name);
    return [file, keysFinding(await reportKeys(read, settings, version), settings)];
  }
  const client = await connectRedis(store, undefined).catch((error: unknown) => error as Error);
  if (client instanceof Error)
    return [
      findingAbout('store', hostsOf(store)).problem({
        what: `Redis cannot be used from this machine: ${client.message}`,
        why: 'without its store, Gatehouse asks everybody to try again, and does not start',
        remedy:
          (tlsFault(client) ?? redisFault(client.cause))?.remedy ??
          'check that Redis runs, that GATEHOUSE_STORE and its password are right, and that no firewall blocks this machine',
      }),
    ];
  try {
    const masters = client instanceof Cluster ? client.nodes('master') : [client];
    const found = masters.map((master) => checkRedis(master, store, maxRedisLatency));
    return flatten([
      await Promise.all(found),
      await secretFinding(client, settings),
      await commandFinding(client, store),
      passwordFinding(store),
    ]);
  } finally {
    await closeRedis(client);
  }
}

const MIN_FREE = 0.1;

async function checkFile(file: string): Promise<Finding> {
  const finding = findingAbout('store', file);
  try {
    await access(file, constants.R_OK | constants.W_OK);
  } catch (error) {
    return finding.problem({
      what: `the store file cannot be read and written (${(error as NodeJS.ErrnoException).code})`,
      why: 'doctor runs on another machine or as another user than Gatehouse, or Gatehouse cannot start',
      remedy: 'run doctor as the user of Gatehouse, with its settings; check dataDir and store',
    });
  }
  const notice = await networkNotice(dirname(file));
  if (notice !== undefined)
    return finding.warning({
      what: notice,
      why: 'a damaged store disconnects everybody',
      remedy: 'move dataDir to a local disk, or set store to a Redis server',
    });
  const { bavail, blocks } = await statfs(dirname(file));
  const free = bavail / blocks;
  const share = `${Math.round(free * 100)} % of the disk`;
  if (free >= MIN_FREE) return finding.ok(`the file is usable, and ${share} is free`);
  return finding.warning({
    what: `only ${share} is free`,
    why: OUT_OF_SPACE,
    remedy: 'free disk space, or move the data directory',
  });
}

/** Without user name and password. */
function hostsOf(address: RedisAddress): string {
  if (address.kind === 'redis') return new URL(address.url).host;
  return address.nodes.map(({ host, port }) => `${host}:${port}`).join(',');
}

/** Tries the commands as the start does, with the rights of the user of Gatehouse. */
async function commandFinding(client: RedisClient, store: RedisAddress): Promise<Finding> {
  const finding = findingAbout('commands', hostsOf(store));
  const subscriber = await connectSubscriber(client);
  try {
    await requireCommands(client, subscriber, 0);
    return finding.ok('the server runs every kind of command that Gatehouse needs');
  } catch (error) {
    if (!(error instanceof CommandsRefused)) throw error;
    return finding.problem({
      what: `Redis ${error.what}`,
      why: 'Gatehouse does not start, or fails later',
      remedy: error.remedy,
    });
  } finally {
    if (subscriber !== client) await closeRedis(subscriber);
  }
}

async function secretFinding(client: RedisClient, settings: Settings): Promise<Finding> {
  const finding = findingAbout('secret', 'GATEHOUSE_SECRET');
  const readable = await unlessRefused(
    reportKeys((name) => client.getBuffer(name), settings, version).then((report) => ({ report })),
  );
  if (!readable) return finding.unknown('Redis does not let this user read the store');
  return keysFinding(readable.report, settings);
}

function keysFinding(report: KeysReport | undefined, { storeId }: Settings): Finding {
  const finding = findingAbout('secret', 'GATEHOUSE_SECRET');
  if (report === undefined)
    return finding.unknown('the store is empty, because no Gatehouse has started with it yet');
  const { refusal, isOtherSecret, notice, id } = report;
  if (refusal === undefined && notice === undefined)
    return finding.ok(`the store was written with this root secret${idText(id, storeId)}`);
  if (refusal === undefined)
    return finding.warning({
      what: String(notice),
      why: 'somebody with a root secret that opens the store can read a copy of it',
      remedy: 'finish the replacement of the root secret: see "Rotation" in config/operating.md',
    });
  return finding.problem({
    what: isOtherSecret ? 'the store was written with another root secret' : refusal,
    why: 'no process starts with these settings',
    remedy: isOtherSecret ? refusal : 'do what the message says, or use another store',
  });
}

function idText(id: string | undefined, storeId: string | undefined): string {
  if (id === undefined) return '';
  return storeId === undefined
    ? `. Its id is ${id}: set storeId to it, so that no start takes another store for it`
    : `, and has the id of storeId`;
}

/** Values are encrypted, but anybody with access to Redis can delete them. */
function passwordFinding(store: RedisAddress): Findings {
  const { host, password } =
    store.kind === 'redis'
      ? { host: new URL(store.url).hostname, password: new URL(store.url).password }
      : { host: store.nodes[0]?.host ?? '', password: store.password ?? '' };
  return (
    password === '' &&
    !isLoopback(host) &&
    findingAbout('store', hostsOf(store)).warning({
      what: 'Redis accepts commands without a password',
      why: 'anybody who can reach it can delete everything, which disconnects everybody',
      remedy: 'create a Redis user with a password, and put both into GATEHOUSE_STORE',
    })
  );
}

// One Redis server

const MIN_VERSION = [6, 2] as const;
const MEMORY_PROBLEM = 0.95;
const MEMORY_WARNING = 0.8;
const PINGS = 21;
const MAX_REPLICA_LAG_SECONDS = 10;

/** `info` is undefined if the server refuses it. */
type RedisFacts = {
  redis: Redis;
  info: Info | undefined;
  service: RedisService | undefined;
};

/** `maxLatency` in milliseconds. */
export async function checkRedis(
  redis: Redis,
  store: RedisAddress,
  maxLatency: number,
): Promise<Finding[]> {
  const { host, port } = redis.options;
  const about = `Redis ${store.kind === 'sentinel' ? `master ${store.name}` : `${host}:${port}`}`;
  const text = await unlessRefused(redis.info());
  const info = text === undefined ? undefined : parseInfo(text);
  const facts = { redis, info, service: redisService(host ?? '', info ?? {}) };
  return flatten([
    versionFinding(findingAbout('redis-version', about), facts),
    await persistenceFinding(findingAbout('persistence', about), facts),
    evictionFinding(findingAbout('eviction', about), facts),
    memoryFinding(findingAbout('memory', about), facts),
    await latencyFinding(findingAbout('latency', about), redis, maxLatency),
    await clockFinding(about, redis),
    await replicationFinding(findingAbout('replication', about), redis),
    store.kind === 'sentinel' && (await replicaFindings(findingAbout('replicas', about), facts)),
  ]);
}

/** Undefined if the server refuses it, as services do. */
async function unlessRefused<T>(reply: Promise<T>): Promise<T | undefined> {
  try {
    return await reply;
  } catch (error) {
    if (isRefusal(error)) return undefined;
    throw error;
  }
}

async function clockFinding(about: string, redis: Redis): Promise<Finding> {
  const sentAt = Date.now();
  const reply = await unlessRefused(redis.time());
  if (!reply) return findingAbout('clock', about).unknown('Redis does not tell its time (TIME)');
  const [seconds = 0, microseconds = 0] = reply;
  const time = Number(seconds) * 1000 + Number(microseconds) / 1000;
  return checkClock(about, time, { sentAt, receivedAt: Date.now() });
}

async function replicationFinding(finding: FindingFactory, redis: Redis): Promise<Finding> {
  const refusal = await waitRefusal(redis);
  if (!refusal) return finding.ok('Gatehouse can wait for replicas before it reports a revocation');
  return finding.warning({
    what: `Gatehouse cannot wait for replicas (WAIT: ${refusal.message})`,
    why: 'if the server has replicas, a failover just after a revocation may undo it',
    remedy: `${RIGHTS}; if the service has no WAIT, use one that does, or one that keeps every write`,
  });
}

function parseInfo(text: string): Info {
  const lines = text.split('\r\n').map((line) => /^([^#:]+):(.*)$/.exec(line));
  return Object.fromEntries(lines.flatMap((match) => (match ? [[match[1], match[2]]] : [])));
}

/** Returns undefined if CONFIG is disabled, as in hosted Redis. */
async function readConfig(redis: Redis, name: string): Promise<string | undefined> {
  const values = await redis.config('GET', name).catch(() => undefined);
  return Array.isArray(values) && values[1] !== undefined ? String(values[1]) : undefined;
}

const INFO_REFUSED = 'Redis does not let this user read it (INFO)';

function versionFinding(finding: FindingFactory, { info, service }: RedisFacts): Finding {
  if (!info) return finding.unknown(INFO_REFUSED);
  const { redis_version: version } = info;
  if (version === undefined) return finding.unknown('the server does not tell its version');
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const isOld = major < MIN_VERSION[0] || (major === MIN_VERSION[0] && minor < MIN_VERSION[1]);
  if (!isOld) return finding.ok(`version ${version}${service ? ` of ${service.name}` : ''}`);
  return finding.problem({
    what: `Redis ${version} is older than ${MIN_VERSION.join('.')}`,
    why: 'it lacks commands that Gatehouse needs',
    remedy: 'upgrade Redis',
  });
}

const LOST_WRITES =
  'a crash loses every write since the last snapshot: connections end, and revocations may be undone';

async function persistenceFinding(
  finding: FindingFactory,
  { redis, info, service }: RedisFacts,
): Promise<Finding> {
  if (service?.persistence.isDurable) return finding.ok(`${service.name} keeps every write`);
  if (!info && !service) return finding.unknown(INFO_REFUSED);
  const { aof_enabled: enabled, aof_last_write_status, aof_last_bgrewrite_status } = info ?? {};
  if (enabled !== '1' && service && !service.persistence.isDurable)
    return finding.warning({
      what: `${service.name} may lose writes`,
      why: LOST_WRITES,
      remedy: service.persistence.remedy,
    });
  if (enabled !== '1')
    return finding.warning({
      what:
        enabled === undefined
          ? 'the server does not tell whether its append-only file is on'
          : 'the append-only file is off',
      why: LOST_WRITES,
      remedy:
        (await readConfig(redis, 'appendonly')) === undefined
          ? 'the server refuses CONFIG: turn the append-only file (AOF, data persistence) on where the service is set up, such as its console, or ask its operator'
          : 'set appendonly yes (CONFIG SET appendonly yes, and in the configuration file)',
    });
  if ([aof_last_write_status, aof_last_bgrewrite_status].includes('err'))
    return finding.problem({
      what: 'Redis could not write its append-only file',
      why: 'acknowledged writes are not on disk, and further writes are refused',
      remedy: 'see the log of Redis; usually the disk is full',
    });
  if ((await readConfig(redis, 'appendfsync')) !== 'no')
    return finding.ok('the append-only file is on');
  return finding.warning({
    what: 'appendfsync is no',
    why: 'a power failure loses the last half minute of writes, including revocations',
    remedy: 'set appendfsync everysec',
  });
}

function evictionFinding(finding: FindingFactory, { info }: RedisFacts): Finding {
  const policy = info?.maxmemory_policy;
  if (policy === NO_EVICTION) return finding.ok('eviction is off');
  const why =
    'when memory is short, Redis evicts records, which disconnects people without a reason';
  if (policy === undefined)
    return finding.warning({
      what: info ? 'the server does not tell whether it evicts records' : INFO_REFUSED,
      why,
      remedy:
        'make sure where the server is set up that eviction is off (maxmemory-policy noeviction)',
    });
  return finding.problem({
    what: `maxmemory-policy is ${policy}`,
    why: `${why}; Gatehouse does not start`,
    remedy: 'set maxmemory-policy noeviction, or turn eviction off where the service is set up',
  });
}

function memoryFinding(finding: FindingFactory, { info }: RedisFacts): Finding {
  if (!info) return finding.unknown(INFO_REFUSED);
  const limit = Number(info.maxmemory) || Number(info.total_system_memory);
  if (!limit || info.used_memory === undefined)
    return finding.unknown('the server does not tell how much memory it uses and may use');
  const share = Number(info.used_memory) / limit;
  const what = `Redis uses ${Math.round(share * 100)} % of its memory`;
  if (share < MEMORY_WARNING) return finding.ok(what);
  return finding[share < MEMORY_PROBLEM ? 'warning' : 'problem']({
    what,
    why: OUT_OF_SPACE,
    remedy: 'give it more memory (maxmemory), or a machine of its own',
  });
}

/** Measures the median of sequential commands, because a single slow response is not significant. */
async function latencyFinding(
  finding: FindingFactory,
  redis: Redis,
  maxLatency: number,
): Promise<Finding> {
  const times: number[] = [];
  for (let ping = 0; ping < PINGS; ping++) {
    const started = performance.now();
    await redis.ping();
    times.push(performance.now() - started);
  }
  const median = times.sort((a, b) => a - b)[Math.floor(PINGS / 2)] ?? 0;
  const what = `Redis responds in ${median.toFixed(1)} ms`;
  if (median < maxLatency) return finding.ok(what);
  return finding.warning({
    what,
    why: `a request runs several commands, and each times out after ${STORE_TIMEOUTS.command / 1000} s`,
    remedy: 'run Redis close to Gatehouse, and check whether Redis or its machine is overloaded',
  });
}

/** A replaced master accepts writes, and loses them, unless it requires a replica for writes. */
async function replicaFindings(
  finding: FindingFactory,
  { redis, info }: RedisFacts,
): Promise<Findings> {
  const minReplicas = await readConfig(redis, 'min-replicas-to-write');
  const maxLag = await readConfig(redis, 'min-replicas-max-lag');
  if (minReplicas === undefined || maxLag === undefined)
    return finding.unknown('Redis does not show min-replicas-to-write');
  const acceptsWritesAlone = Number(minReplicas) < 1 || Number(maxLag) > MAX_REPLICA_LAG_SECONDS;
  return okIfNone(
    [
      acceptsWritesAlone &&
        finding.warning({
          what: `min-replicas-to-write is ${minReplicas} and min-replicas-max-lag ${maxLag}`,
          why: 'a replaced master continues to accept writes and loses them, including revocations',
          remedy: 'set min-replicas-to-write 1 and min-replicas-max-lag 10 on every Redis server',
        }),
      info?.connected_slaves === '0' &&
        finding.warning({
          what: 'the master has no replica',
          why: 'no server can take over when it fails',
          remedy: 'start a replica, and find out why the previous one disconnected',
        }),
    ],
    finding.ok('the master requires a replica for writes'),
  );
}
