import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Cluster, type Redis, type Result } from 'ioredis';
import { type ByteStore, FIELD_LENGTH, MEMBERS_PER_PAGE, type Transform } from './byte-store.ts';
import {
  closeRedis,
  connectRedis,
  connectSubscriber,
  type RedisAddress,
  type RedisClient,
} from './redis-client.ts';
import { redisCounters } from './redis-counters.ts';
import { isRefusal } from './redis-errors.ts';
import {
  evictionPolicies,
  mastersOf,
  mixesSlots,
  NO_EVICTION,
  requireCommands,
  waitRefusal,
} from './redis-requirements.ts';
import { defineLogCommands, redisLogs, rewriteLogEntries } from './redis-logs.ts';
import type { StoreLogger } from './store.ts';
import { STORE_TIMEOUTS } from './timeout.ts';

// Encrypted bytes are unique. If `next` is already stored, ioredis re-sent this command after a lost connection.
const COMPARE_AND_SWAP = `
local there = redis.call('GET', KEYS[1]) or ''
if there == ARGV[1] then
  if ARGV[2] == '' then redis.call('DEL', KEYS[1])
  elseif ARGV[3] == '' then redis.call('SET', KEYS[1], ARGV[2])
  else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
  return 1
end
if there == ARGV[2] then return 1 end
return there`;

// An order takes as much memory as its set, and most sets have few members.
const MAX_UNORDERED = 100;

const ADD_SET_MEMBER = `
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if redis.call('HLEN', KEYS[1]) > ${MAX_UNORDERED} then redis.call('ZADD', KEYS[2], 0, ARGV[4]) end
for _, key in ipairs(KEYS) do
  if ARGV[3] == '' then redis.call('PERSIST', key)
  else redis.call('PEXPIRE', key, ARGV[3]) end
end`;

// KEYS: the value, and for each member its set and the order of the set. ARGV: those of both scripts.
const ADD_WITH_MEMBERS = `
local function add_member(KEYS, ARGV) ${ADD_SET_MEMBER}
end
local function swap(KEYS, ARGV) ${COMPARE_AND_SWAP}
end
for n = 1, (#KEYS - 1) / 2 do
  add_member({ KEYS[2 * n], KEYS[2 * n + 1] }, { unpack(ARGV, 4 * n, 4 * n + 3) })
end
return swap({ KEYS[1] }, { unpack(ARGV, 1, 3) })`;

const REMOVE_SET_MEMBER = `
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[2])`;

// A set whose counts differ has just become large, or was changed by a process that does not know the order.
const READ_PAGE = `
local count = redis.call('HLEN', KEYS[1])
if count <= ${MAX_UNORDERED} then
  return { 'all', redis.call('HGETALL', KEYS[1]) }
end
if ARGV[5] == '' and count ~= redis.call('ZCARD', KEYS[2]) then return 0 end
local places = redis.call(ARGV[1], KEYS[2], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
local found = {}
for _, place in ipairs(places) do
  local value = redis.call('HGET', KEYS[1], string.sub(place, -${FIELD_LENGTH}))
  if value then
    found[#found + 1] = place
    found[#found + 1] = value
  elseif ARGV[5] == '' then
    redis.call('DEL', KEYS[2])
    return 0
  end
end
return { 'page', found }`;

// More places than members: some are of members that were removed.
const SET_PLACES = `
if redis.call('ZCARD', KEYS[2]) > redis.call('HLEN', KEYS[1]) then redis.call('DEL', KEYS[2]) end
for _, place in ipairs(ARGV) do
  if redis.call('HEXISTS', KEYS[1], string.sub(place, -${FIELD_LENGTH})) == 1 then
    redis.call('ZADD', KEYS[2], 0, place)
  end
end
local left = redis.call('PTTL', KEYS[1])
if left > 0 then redis.call('PEXPIRE', KEYS[2], left) end`;

const APPEND_ENTRY = `
if ARGV[2] == '' then
  redis.call('XADD', KEYS[1], '*', 'v', ARGV[1])
  redis.call('PERSIST', KEYS[1])
else
  local time = redis.call('TIME')
  local oldest = math.max(0, time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[2])
  redis.call('XADD', KEYS[1], 'MINID', '~', string.format('%.0f', oldest), '*', 'v', ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end`;

declare module 'ioredis' {
  interface RedisCommander<Context> {
    compareAndSwapBuffer(
      key: string,
      before: Buffer,
      next: Buffer,
      milliseconds: string,
    ): Result<1 | Buffer, Context>;
    addWithMembersBuffer(
      keys: number,
      ...keysAndValues: (string | Buffer)[]
    ): Result<1 | Buffer, Context>;
    addSetMember(
      key: string,
      order: string,
      field: string,
      value: Buffer,
      milliseconds: string,
      place: string,
    ): Result<null, Context>;
    removeSetMember(
      key: string,
      order: string,
      field: string,
      place: string,
    ): Result<null, Context>;
    readPageBuffer(
      key: string,
      order: string,
      command: 'ZRANGEBYLEX' | 'ZREVRANGEBYLEX',
      from: string,
      to: string,
      limit: number,
      incomplete: '' | '1',
    ): Result<0 | [kind: Buffer, flat: Buffer[]], Context>;
    setPlaces(key: string, order: string, ...places: string[]): Result<null, Context>;
    appendEntry(key: string, value: Buffer, milliseconds: string): Result<null, Context>;
    replaceValue(key: string, before: Buffer, next: Buffer): Result<0 | 1, Context>;
    replaceSetMember(
      key: string,
      field: string,
      before: Buffer,
      next: Buffer,
    ): Result<0 | 1, Context>;
    replaceStream(key: string, copy: string, entries: number): Result<0 | 1, Context>;
  }
}

const NOTHING = Buffer.alloc(0);

/** Requires Redis 6.2. Throws if Redis is not ready within `timeouts.open`, lacks what the store needs, or evicts keys under memory pressure. */
export async function openRedis(
  address: RedisAddress,
  logger?: StoreLogger,
  timeouts = STORE_TIMEOUTS,
): Promise<ByteStore> {
  const client = await connectRedis(address, logger, timeouts);
  client.defineCommand('compareAndSwap', { numberOfKeys: 1, lua: COMPARE_AND_SWAP });
  client.defineCommand('addSetMember', { numberOfKeys: 2, lua: ADD_SET_MEMBER });
  client.defineCommand('addWithMembers', { lua: ADD_WITH_MEMBERS });
  client.defineCommand('removeSetMember', { numberOfKeys: 2, lua: REMOVE_SET_MEMBER });
  client.defineCommand('readPage', { numberOfKeys: 2, lua: READ_PAGE });
  client.defineCommand('setPlaces', { numberOfKeys: 2, lua: SET_PLACES });
  client.defineCommand('appendEntry', { numberOfKeys: 1, lua: APPEND_ENTRY });
  defineLogCommands(client);
  const closers = [client];
  try {
    const subscriber = await connectSubscriber(client, timeouts);
    closers.push(subscriber);
    await requireCommands(client, subscriber, timeouts.open);
    await rejectEviction(client, logger);
    const mayMix = await mixesSlots(client);
    const mayWait = await canWait(client, logger);
    return {
      ...values(client),
      ...sets(client),
      ...(mayMix ? { addWithMembers: adderWithMembers(client) } : {}),
      ...streams(client),
      ...redisLogs(client),
      rewrite: rewriter(client),
      ...channels(client, subscriber, logger),
      ...(mayWait ? { replicated: waitForReplicas(client) } : {}),
      ...redisCounters(client, mayMix),
      freeBytes: () => freeBytes(client),
      ping: () => assertReady(client),
      close: () => closeAll(closers),
    };
  } catch (error) {
    await closeAll(closers);
    throw error;
  }
}

async function closeAll(clients: readonly RedisClient[]): Promise<void> {
  await Promise.all([...new Set(clients)].map(closeRedis));
}

/** The argument of PX and PEXPIRE. Empty for a value that never expires. */
function milliseconds(ttl: number): string {
  return ttl === Infinity ? '' : String(Math.ceil(ttl * 1000));
}

type Values = Pick<
  ByteStore,
  'get' | 'getMany' | 'set' | 'compareAndSwap' | 'getAndDelete' | 'delete'
>;

function values(client: RedisClient): Values {
  const get = async (name: string) => (await client.getBuffer(name)) ?? undefined;
  return {
    get,
    getMany: manyReader(client, get),
    async set(name, bytes, ttl) {
      if (ttl === Infinity) await client.set(name, bytes);
      else await client.set(name, bytes, 'PX', milliseconds(ttl));
    },
    async compareAndSwap(name, before = NOTHING, next = NOTHING, ttl) {
      const answer = await client.compareAndSwapBuffer(name, before, next, milliseconds(ttl));
      if (answer === 1) return true;
      return answer.length > 0 ? answer : undefined;
    },
    getAndDelete: async (name) => (await client.getdelBuffer(name)) ?? undefined,
    async delete(name) {
      await client.del(name, orderOf(name));
    },
  };
}

/** Reads with one command, which takes a fraction of the time. Not in a Cluster, where the keys are on different servers. */
function manyReader(client: RedisClient, get: ByteStore['get']): ByteStore['getMany'] {
  let mayReadSeveral = !(client instanceof Cluster);
  // In one write to the connection.
  const getEach = (names: readonly string[]) => Promise.all(names.map((name) => get(name)));
  return async (names) => {
    if (!mayReadSeveral || names.length < 2) return getEach(names);
    try {
      return (await client.mgetBuffer(...names)).map((bytes) => bytes ?? undefined);
    } catch (error) {
      // The user lacks the right, or a service spreads keys over servers behind one address.
      if (!isRefusal(error)) throw error;
      const each = await getEach(names);
      mayReadSeveral = false;
      return each;
    }
  };
}

function adderWithMembers(client: RedisClient): NonNullable<ByteStore['addWithMembers']> {
  return async (name, bytes, ttl, members) => {
    const sets = members.flatMap((each) => [each.name, orderOf(each.name)]);
    const added = members.flatMap(({ member, ttl: lifetime }) => [
      member.field,
      member.bytes,
      milliseconds(lifetime),
      member.place,
    ]);
    const value = [NOTHING, bytes, milliseconds(ttl)];
    const keys = [name, ...sets];
    return (await client.addWithMembersBuffer(keys.length, ...keys, ...value, ...added)) === 1;
  };
}

/** The key of the order of a set, in the same slot of a Cluster. */
function orderOf(name: string): string {
  return `order:{${name}}`;
}

type Sets = Pick<
  ByteStore,
  'addMember' | 'removeMember' | 'members' | 'sizes' | 'includes' | 'page' | 'setPlaces'
>;

function sets(client: RedisClient): Sets {
  return {
    async addMember(name, { field, place, bytes }, ttl) {
      await client.addSetMember(name, orderOf(name), field, bytes, milliseconds(ttl), place);
    },
    async removeMember(name, { field, place }) {
      await client.removeSetMember(name, orderOf(name), field, place);
    },
    async members(name, from) {
      const [next, flat] = await client.hscanBuffer(name, from || '0', 'COUNT', MEMBERS_PER_PAGE);
      const members = pairs(flat);
      const cursor = next.toString();
      if (cursor === '0') return { members };
      return { members, next: cursor, ...(from ? {} : { total: await client.hlen(name) }) };
    },
    // In one write to the connection, as in `getMany`.
    sizes: (names, limit) =>
      Promise.all(names.map(async (name) => Math.min(limit, await client.hlen(name)))),
    async includes(name, fields) {
      if (fields.length === 0) return new Set();
      const values = await client.hmgetBuffer(name, ...fields);
      return new Set(fields.filter((_field, index) => values[index] !== null));
    },
    async page(name, { after, limit, newestFirst, incomplete }) {
      const [command, from, to] = newestFirst
        ? (['ZREVRANGEBYLEX', '+', '-'] as const)
        : (['ZRANGEBYLEX', '-', '+'] as const);
      const first = after === undefined ? from : `(${after}`;
      const left = incomplete ? '1' : '';
      const order = orderOf(name);
      const answer = await client.readPageBuffer(name, order, command, first, to, limit, left);
      if (answer === 0) return undefined;
      const [kind, flat] = answer;
      const found = pairs(flat);
      if (kind.toString() === 'all') return { all: found };
      return found.map(([place, bytes]) => ({
        field: place.slice(-FIELD_LENGTH),
        place,
        bytes,
      }));
    },
    async setPlaces(name, members) {
      if (members.length > 0)
        await client.setPlaces(name, orderOf(name), ...members.map(({ place }) => place));
    },
  };
}

/** HSCAN returns fields and values alternately. */
function pairs(flat: readonly Buffer[]): [string, Buffer][] {
  return flat.flatMap((field, i): [string, Buffer][] =>
    i % 2 === 0 ? [[field.toString(), flat[i + 1] ?? NOTHING]] : [],
  );
}

type Streams = Pick<ByteStore, 'append' | 'range'>;

function streams(client: RedisClient): Streams {
  return {
    async append(name, bytes, ttl) {
      await client.appendEntry(name, bytes, milliseconds(ttl));
    },
    async range(name, { after, limit, newestFirst }) {
      const from = after && `(${redisId(after)}`;
      // Redis rejects an exclusive range that ends before id 0-0.
      if (newestFirst && from === '(0-0') return [];
      const entries = newestFirst
        ? await client.xrevrangeBuffer(name, from ?? '+', '-', 'COUNT', limit)
        : await client.xrangeBuffer(name, from ?? '-', '+', 'COUNT', limit);
      return entries.map(([id, [, bytes = NOTHING]]) => [entryId(id.toString()), bytes]);
    },
  };
}

/** `<milliseconds>-<sequence>`, with 16 digits each, so that ids sort as text. */
function entryId(id: string): string {
  return id
    .split('-')
    .map((part) => part.padStart(16, '0'))
    .join('');
}

function redisId(id: string): string {
  return `${Number(id.slice(0, 16))}-${Number(id.slice(16))}`;
}

// Redis answers INFO also while it loads its data, before it accepts other commands.
async function assertReady(client: RedisClient): Promise<void> {
  if (client.status !== 'ready') throw new Error(`the connection to Redis is ${client.status}`);
  await rejectEviction(client);
}

const MAX_MEMORY_SHARE = 0.9;

/** Services may refuse INFO, and then tell nothing. */
async function freeBytes(client: RedisClient): Promise<number> {
  const free = mastersOf(client).map(async (master) => {
    const info = await master.info('memory').catch(() => '');
    const valueOf = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1]);
    const limit = valueOf('maxmemory') || valueOf('total_system_memory');
    return limit > 0 ? MAX_MEMORY_SHARE * limit - valueOf('used_memory') : Infinity;
  });
  return Math.min(...(await Promise.all(free)));
}

/** Redis is the system of record, so it must not evict records that have not expired. Warns about a service that does not tell. */
async function rejectEviction(client: RedisClient, logger?: StoreLogger): Promise<void> {
  const policies = await evictionPolicies(client);
  const evicting = policies.find((policy) => policy !== undefined && policy !== NO_EVICTION);
  if (evicting !== undefined)
    throw new Error(
      `it evicts records when it runs out of memory (maxmemory-policy ${evicting}): set maxmemory-policy to noeviction, or turn eviction off at the service`,
    );
  if (policies.includes(undefined))
    logger?.warn(
      {},
      'the store does not tell whether it evicts records when it runs out of memory, which would end connections: turn eviction off there (maxmemory-policy noeviction)',
    );
}

/** Asks WAIT itself, because services refuse or change other commands about replicas. */
async function canWait(client: RedisClient, logger: StoreLogger | undefined): Promise<boolean> {
  const [master] = mastersOf(client);
  const refusal = master && (await waitRefusal(master));
  if (!refusal) return true;
  logger?.warn(
    { err: refusal },
    'the store does not let Gatehouse wait for replicas (WAIT): a failover just after a revocation may undo it',
  );
  return false;
}

const RESUBSCRIBE_DELAY_MS = 1000;

/** Subscribes again after each lost connection. */
function channels(
  client: RedisClient,
  subscriber: RedisClient,
  logger: StoreLogger | undefined,
): Pick<ByteStore, 'publish' | 'subscribe'> {
  const subscribed = new Map<string, Set<(message: Buffer) => void>>();
  const resubscribe = async () => {
    if (subscriber.status !== 'ready' || subscribed.size === 0) return;
    try {
      await subscriber.subscribe(...subscribed.keys());
    } catch (error) {
      logger?.warn({ err: error }, 'subscribing to changes failed, retrying');
      setTimeout(resubscribe, RESUBSCRIBE_DELAY_MS).unref();
    }
  };
  subscriber.on('ready', resubscribe);
  subscriber.on('messageBuffer', (from: Buffer, message: Buffer) => {
    for (const listener of subscribed.get(from.toString()) ?? []) listener(message);
  });

  return {
    async publish(channel, message) {
      await client.publish(channel, message);
    },
    async subscribe(channel, listener) {
      await subscriber.subscribe(channel);
      const listeners = subscribed.get(channel) ?? new Set();
      subscribed.set(channel, listeners.add(listener));
      // The channel stays: there are few, and the next listener of it comes soon.
      return () => void listeners.delete(listener);
    },
  };
}

// WAIT blocks the connection, so it is sent with a short timeout and pauses between for other commands.
const WAIT_TIMEOUT_MS = 20;
const PAUSE_BETWEEN_WAITS_MS = 60;

/**
 * Waits until a replica of the master that holds `name` has acknowledged all earlier writes, at most slightly longer than `milliseconds`.
 * Returns at once if there is no replica. Rejects if Redis does not answer.
 */
function waitForReplicas(client: RedisClient): NonNullable<ByteStore['replicated']> {
  // One WAIT at a time, so that many callers do not block the connection.
  let lastTurn: Promise<unknown> = Promise.resolve();
  const inTurn = <R>(work: () => Promise<R>): Promise<R> => {
    const turn = lastTurn.then(work);
    lastTurn = turn.catch(() => undefined);
    return turn;
  };
  /** ROLE is refused or has another form. */
  let hasRole = true;
  /** Without ROLE: no replica has acknowledged anything in the whole time of the last call. */
  let isAlone = false;

  return async function replicated(name, milliseconds) {
    const end = performance.now() + milliseconds;
    const written = hasRole ? await askMaster(client, name, 0) : undefined;
    if (written && !written.replicas) hasRole = false;
    if (written?.replicas?.length === 0) return;
    const isDone = async () => {
      if (performance.now() > end) {
        isAlone = !hasRole;
        return true;
      }
      const now = await askMaster(client, name, WAIT_TIMEOUT_MS);
      const { offset = Infinity } = written ?? {};
      if (now.acknowledged > 0 || now.replicas?.some((reached) => reached >= offset)) {
        isAlone = false;
        return true;
      }
      if (isAlone) return true;
      await delay(PAUSE_BETWEEN_WAITS_MS);
      return false;
    };
    while (!(await inTurn(isDone)));
  };
}

type Replication = {
  /** Bytes written by the master. */
  offset?: number;
  /** Bytes that each replica has acknowledged. Undefined if the server does not tell. */
  replicas?: number[];
  /** How many replicas acknowledged all writes of this connection, when they were asked. */
  acknowledged: number;
};

/** Asks replicas to acknowledge within `milliseconds`. With 0, returns their last acknowledgement, which they send once a second. */
async function askMaster(
  client: RedisClient,
  name: string,
  milliseconds: number,
): Promise<Replication> {
  // In a Cluster, EXISTS routes the whole pipeline to the master of the key.
  const pipeline = client.pipeline().exists(name);
  if (milliseconds > 0) pipeline.wait(1, milliseconds);
  const replies = (await pipeline.role().exec()) ?? [];
  for (const [error] of replies) if (error && !isRefusal(error)) throw error;
  const [roleError, role] = replies.at(-1) ?? [];
  const acknowledged = milliseconds > 0 ? Number(replies[1]?.[1] ?? 0) : 0;
  return { ...(roleError ? {} : readRole(role)), acknowledged };
}

/** The reply of ROLE: `master`, offset, and for each replica host, port and offset. Services have other forms. */
function readRole(role: unknown): Pick<Replication, 'offset' | 'replicas'> {
  if (!Array.isArray(role)) return {};
  const [kind, offset, replicas] = role as unknown[];
  if (kind !== 'master') throw new Error('Redis is not a master');
  if (!Array.isArray(replicas) || !Number.isSafeInteger(Number(offset ?? NaN))) return {};
  const reached = replicas.map((replica) => Number(Array.isArray(replica) ? replica[2] : NaN));
  return reached.some(Number.isNaN) ? {} : { offset: Number(offset), replicas: reached };
}

const SCAN_COUNT = 100;

const REPLACE_VALUE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1`;

const REPLACE_SET_MEMBER = `
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1`;

// ARGV: how many entries were copied. Only earlier versions appended to streams; one that grew keeps its entries.
const REPLACE_STREAM = `
if redis.call('XLEN', KEYS[1]) ~= tonumber(ARGV[1]) then
  redis.call('DEL', KEYS[2])
  return 0
end
local left = redis.call('PTTL', KEYS[1])
redis.call('RENAME', KEYS[2], KEYS[1])
if left > 0 then redis.call('PEXPIRE', KEYS[1], left) else redis.call('PERSIST', KEYS[1]) end
return 1`;

/** Rewrites everything, on every master. */
function rewriter(client: RedisClient): ByteStore['rewrite'] {
  client.defineCommand('replaceValue', { numberOfKeys: 1, lua: REPLACE_VALUE });
  client.defineCommand('replaceSetMember', { numberOfKeys: 1, lua: REPLACE_SET_MEMBER });
  client.defineCommand('replaceStream', { numberOfKeys: 2, lua: REPLACE_STREAM });
  return async function* rewrite(transform) {
    for (const master of mastersOf(client)) {
      for await (const names of scanNames(master, 'string')) {
        yield await sumOf(names.map((name) => rewriteValue(client, name, transform)));
      }
      for await (const names of scanNames(master, 'hash')) {
        for (const name of names) yield* rewriteMembers(client, name, transform);
        yield 0;
      }
      for await (const names of scanNames(master, 'stream')) {
        for (const name of names) yield* rewriteStream(client, name, transform);
        yield 0;
      }
      for await (const keys of scanNames(master, 'zset')) {
        for (const key of keys) yield* rewriteLogEntries(client, key, transform);
        yield 0;
      }
    }
  };
}

function scanNames(
  master: Redis,
  type: 'string' | 'hash' | 'stream' | 'zset',
): AsyncGenerator<string[]> {
  return pages((cursor) => master.scan(cursor, 'COUNT', SCAN_COUNT, 'TYPE', type));
}

async function* pages<T>(
  read: (cursor: string) => Promise<[next: Buffer | string, page: T[]]>,
): AsyncGenerator<T[]> {
  let cursor = '0';
  do {
    const [next, page] = await read(cursor);
    cursor = next.toString();
    yield page;
  } while (cursor !== '0');
}

async function rewriteValue(
  client: RedisClient,
  name: string,
  transform: Transform,
): Promise<number> {
  const before = await client.getBuffer(name);
  const next = before && transform(before, { name });
  return before && next ? client.replaceValue(name, before, next) : 0;
}

async function* rewriteMembers(
  client: RedisClient,
  name: string,
  transform: Transform,
): AsyncGenerator<number> {
  for await (const flat of pages((cursor) =>
    client.hscanBuffer(name, cursor, 'COUNT', SCAN_COUNT),
  )) {
    yield await sumOf(
      pairs(flat).map(async ([field, before]) => {
        const next = transform(before, { name, field });
        return next ? client.replaceSetMember(name, field, before, next) : 0;
      }),
    );
  }
}

const COPY_MS = 3_600_000;

type StreamEntry = [id: string, bytes: Buffer];

/** Entries of a stream cannot be changed, so it is copied, with their ids, from the first change on, and replaced at the end. */
async function* rewriteStream(
  client: RedisClient,
  name: string,
  transform: Transform,
): AsyncGenerator<number> {
  if (name.startsWith('copy:')) return;
  const copy = `copy:{${name}}:${randomBytes(8).toString('hex')}`;
  const append = async (entries: readonly StreamEntry[]) => {
    await Promise.all(entries.map(([id, bytes]) => client.xadd(copy, id, 'v', bytes)));
    // A process that is killed leaves it behind.
    await client.pexpire(copy, COPY_MS);
  };
  let [count, replaced] = [0, 0];
  for await (const entries of streamPages(client, name)) {
    const next = entries.map(([id, bytes]): [...StreamEntry, isNew: boolean] => {
      const rewritten = transform(bytes, { name, entry: id });
      return [id, rewritten ?? bytes, rewritten !== undefined];
    });
    const changes = next.filter(([, , isNew]) => isNew).length;
    if (replaced === 0 && changes > 0 && count > 0)
      for await (const earlier of streamPages(client, name, entries[0]?.[0])) await append(earlier);
    replaced += changes;
    if (replaced > 0) await append(next.map(([id, bytes]) => [id, bytes]));
    count += entries.length;
    yield 0;
  }
  if (replaced > 0) yield (await client.replaceStream(name, copy, count)) === 1 ? replaced : 0;
}

/** Pages of the entries before one of them, or of all. */
async function* streamPages(
  client: RedisClient,
  name: string,
  before?: string,
): AsyncGenerator<StreamEntry[]> {
  const end = before === undefined ? '+' : `(${before}`;
  for (let from = '-'; ;) {
    const page = await client.xrangeBuffer(name, from, end, 'COUNT', SCAN_COUNT);
    if (page.length > 0)
      yield page.map(([id, [, bytes = NOTHING]]): StreamEntry => [id.toString(), bytes]);
    if (page.length < SCAN_COUNT) return;
    from = `(${page.at(-1)?.[0].toString() ?? ''}`;
  }
}

async function sumOf(counts: Promise<number>[]): Promise<number> {
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}
