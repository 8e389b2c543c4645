// What Gatehouse requires of a Redis server or a service that speaks its protocol, checked when the store opens and by doctor.
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Cluster, type Redis } from 'ioredis';
import type { RedisClient } from './redis-client.ts';
import { IS_SENTINEL, isRefusal, type RedisFault, redisFault, RIGHTS } from './redis-errors.ts';

type Command = readonly [name: string, ...args: (string | number)[]];

const LIFETIME_MS = 10_000;
const RETRY_MS = 100;

/** Each kind of command that the store sends. The values have no meaning. */
const KINDS: readonly [kind: string, commands: (key: string) => readonly Command[]][] = [
  [
    'values',
    (key) => [
      ['SET', key, 1, 'PX', LIFETIME_MS],
      ['GET', key],
      ['EXISTS', key],
      ['PTTL', key],
      ['PERSIST', key],
      ['GETDEL', key],
    ],
  ],
  [
    'counters',
    (key) => [
      ['SET', key, 0, 'EX', LIFETIME_MS / 1000, 'NX'],
      ['INCRBY', key, 1],
    ],
  ],
  [
    'hashes',
    (key) => [
      ['HSET', key, 'field', 1],
      ['PEXPIRE', key, LIFETIME_MS],
      ['HGET', key, 'field'],
      ['HMGET', key, 'field'],
      ['HGETALL', key],
      ['HEXISTS', key, 'field'],
      ['HLEN', key],
      ['HSCAN', key, 0, 'COUNT', 1],
      ['HSETNX', key, 'number', 1],
      ['HINCRBY', key, 'number', 1],
      ['HDEL', key, 'field'],
    ],
  ],
  [
    'sorted sets',
    (key) => [
      ['ZADD', key, 0, 'member'],
      ['PEXPIRE', key, LIFETIME_MS],
      ['ZCARD', key],
      ['ZRANGEBYLEX', key, '-', '+', 'LIMIT', 0, 1],
      ['ZREVRANGEBYLEX', key, '+', '-', 'LIMIT', 0, 1],
      ['ZRANGEBYSCORE', key, 0, 1, 'WITHSCORES', 'LIMIT', 0, 1],
      ['ZREVRANGEBYSCORE', key, 1, 0, 'LIMIT', 0, 1],
      ['ZREVRANGE', key, 0, 0],
      ['ZREM', key, 'member'],
      ['ZREMRANGEBYSCORE', key, 0, 1],
    ],
  ],
  [
    'streams',
    (key) => [
      ['XADD', key, 'MINID', '~', 0, '*', 'v', 1],
      ['PEXPIRE', key, LIFETIME_MS],
      ['XRANGE', key, '-', '+', 'COUNT', 1],
      ['XREVRANGE', key, '+', '-', 'COUNT', 1],
    ],
  ],
  [
    'scripts',
    (key) => [
      ['EVAL', "redis.call('TIME') return redis.call('EXISTS', KEYS[1])", 1, key],
      ['EVALSHA', '0'.repeat(40), 1, key],
    ],
  ],
  ['channels', (key) => [['PUBLISH', key, 1]]],
];

/** The server refuses commands that the store needs. `what` is a predicate whose subject is the server. */
export class CommandsRefused extends Error {
  readonly what: string;
  readonly remedy: string;

  constructor({ what, remedy }: RedisFault, cause: Error | undefined) {
    super(`it ${what}: ${remedy}`, { cause });
    this.name = 'CommandsRefused';
    this.what = what;
    this.remedy = remedy;
  }
}

type Refused = { kind: string; name: string; error: Error };

/**
 * Tries each kind of command once, on keys that are deleted at once. Throws CommandsRefused if the server refuses some for good. A server that is a replica may be about to take over, so it is asked again until `timeoutMs` have passed.
 */
export async function requireCommands(
  client: RedisClient,
  subscriber: RedisClient,
  timeoutMs: number,
): Promise<void> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const wrongServer = await wrongServerOf(client);
    if (!wrongServer) break;
    if (!wrongServer.isReplica || performance.now() > end)
      throw new CommandsRefused(wrongServer.fault, wrongServer.error);
    await delay(RETRY_MS);
  }
  const refused = await refusedCommands(client, subscriber);
  if (refused.length > 0) throw explanation(refused);
}

const MOVED = /^(MOVED|ASK)\b/;

type WrongServer = { fault: RedisFault; error: Error; isReplica: boolean };

/** A server that refuses every command for what it is: a replica, a part of a Cluster, or a Sentinel. */
async function wrongServerOf(client: RedisClient): Promise<WrongServer | undefined> {
  const [refused] = await attempt(
    'values',
    ['DEL', `probe:${randomBytes(16).toString('hex')}`],
    client,
  );
  if (!refused) return undefined;
  const { error } = refused;
  const isReplica = error.message.startsWith('READONLY');
  if (isReplica || MOVED.test(error.message)) {
    const fault = redisFault(error);
    return fault && { fault, error, isReplica };
  }
  const info = await client.info('server').catch(() => '');
  const isSentinel = info.includes('redis_mode:sentinel');
  return isSentinel ? { fault: IS_SENTINEL, error, isReplica } : undefined;
}

async function refusedCommands(client: RedisClient, subscriber: RedisClient): Promise<Refused[]> {
  const suffix = randomBytes(16).toString('hex');
  const keyOf = (kind: string) => `probe:${kind.replace(' ', '-')}-${suffix}`;
  const tried = KINDS.flatMap(([kind, commands]) =>
    commands(keyOf(kind)).map((command) => attempt(kind, command, client)),
  );
  const deletions = KINDS.map(([kind]) => attempt('values', ['DEL', keyOf(kind)], client));
  const server = client instanceof Cluster ? client.nodes('master')[0] : client;
  const scan: Command = ['SCAN', 0, 'COUNT', 1, 'TYPE', 'string'];
  const others = [
    ...(server ? [attempt('iteration', scan, server)] : []),
    subscription(keyOf('channels'), subscriber),
  ];
  return (await Promise.all([...tried, ...others, ...deletions])).flat();
}

async function attempt(
  kind: string,
  [name, ...args]: Command,
  client: RedisClient,
): Promise<Refused[]> {
  return refusalOf(kind, name, client.call(name, ...args));
}

async function subscription(channel: string, subscriber: RedisClient): Promise<Refused[]> {
  const refused = await refusalOf('channels', 'SUBSCRIBE', subscriber.subscribe(channel));
  if (refused.length === 0) await subscriber.unsubscribe(channel).catch(() => undefined);
  return refused;
}

/** Other errors than refusals show in the next command. */
async function refusalOf(kind: string, name: string, reply: Promise<unknown>): Promise<Refused[]> {
  try {
    await reply;
    return [];
  } catch (error) {
    const isUnknownScript = error instanceof Error && error.message.startsWith('NOSCRIPT');
    return isRefusal(error) && !isUnknownScript ? [{ kind, name, error }] : [];
  }
}

function explanation(refused: readonly Refused[]): CommandsRefused {
  const [first] = refused;
  // The slot of the first command may belong to this server.
  const moved = refused.find(({ error }) => MOVED.test(error.message))?.error;
  const fault = moved && redisFault(moved);
  if (fault) return new CommandsRefused(fault, moved);
  const kinds = Map.groupBy(refused, ({ kind }) => kind);
  const listed = [...kinds].map(
    ([kind, of]) => `${kind} (${[...new Set(of.map(({ name }) => name))].join(', ')})`,
  );
  const isForbidden = first?.error.message.startsWith('NOPERM');
  const what = isForbidden
    ? `does not let this user use ${listed.join(', ')}`
    : `lacks ${listed.join(', ')}`;
  const remedy = isForbidden
    ? RIGHTS
    : 'Gatehouse requires Redis 6.2 or later, Valkey, or a service with these commands';
  const reason = first?.error.message.replace(/, with args beginning with.*/s, '');
  return new CommandsRefused(
    { what: `${what}, which Gatehouse needs (${reason})`, remedy },
    first?.error,
  );
}

/**
 * Whether a script may have keys of several slots. Not in a Cluster, and not at a service that spreads keys over servers behind one address, such as
 * Redis Enterprise with clustering and without the OSS Cluster API.
 */
export async function mixesSlots(client: RedisClient): Promise<boolean> {
  if (client instanceof Cluster) return false;
  const keys = ['a', 'b', 'c'].map((slot) => `probe:{${slot}}`);
  try {
    await client.eval("return redis.call('EXISTS', unpack(KEYS))", keys.length, ...keys);
    return true;
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('CROSSSLOT')) return false;
    throw error;
  }
}

/** The masters of a Cluster, or the one server. */
export function mastersOf(client: RedisClient): Redis[] {
  const masters = client instanceof Cluster ? client.nodes('master') : [client];
  if (masters.length === 0) throw new Error('no master of the Redis Cluster is known');
  return masters;
}

/** A server that evicts records that have not expired signs people out. Only this policy does not; services have other names for theirs. */
export const NO_EVICTION = 'noeviction';

/** The policies of all masters, from INFO. Undefined stands for one that does not tell. */
export async function evictionPolicies(client: RedisClient): Promise<(string | undefined)[]> {
  return Promise.all(
    mastersOf(client).map(async (master) => {
      const info = await master.info('memory').catch((error: unknown) => {
        if (isRefusal(error)) return '';
        throw error;
      });
      return /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
    }),
  );
}

/** Why replicas cannot be waited for, or undefined if they can. `master` is connected to one server. */
export async function waitRefusal(master: Redis): Promise<Error | undefined> {
  try {
    await master.wait(0, 1);
    return undefined;
  } catch (error) {
    if (isRefusal(error)) return error;
    throw error;
  }
}
