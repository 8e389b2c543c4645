// The database of several machines: Redis 6.2 or later, alone, with Sentinel or as a Cluster; every command names one key.
import type { Result } from 'ioredis';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { type ByteStore, MEMBERS_PER_PAGE } from './byte-store.ts';
import type { Logger } from './logger.ts';
import { redisChannels } from './redis-channels.ts';
import {
  closeRedis,
  connectRedis,
  connectSubscriber,
  type RedisAddress,
  type RedisClient,
} from './redis-client.ts';
import { rewriter } from './redis-rewrite.ts';
import { waitForReplicas } from './redis-replicas.ts';

// Encrypted bytes are unique, so bytes equal to mine were written by me: this command, sent again over a new connection.
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

const ADD_SET_MEMBER = `
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if ARGV[3] == '' then redis.call('PERSIST', KEYS[1])
else redis.call('PEXPIRE', KEYS[1], ARGV[3]) end`;

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
    addSetMember(
      key: string,
      field: string,
      value: Buffer,
      milliseconds: string,
    ): Result<null, Context>;
    appendEntry(key: string, value: Buffer, milliseconds: string): Result<null, Context>;
  }
}

const NOTHING = Buffer.alloc(0);

/** Throws when Redis is not ready within 5 s, or is set to evict keys under memory pressure. */
export async function openRedis(address: RedisAddress, logger?: Logger): Promise<ByteStore> {
  const client = await connectRedis(address, logger);
  client.defineCommand('compareAndSwap', { numberOfKeys: 1, lua: COMPARE_AND_SWAP });
  client.defineCommand('addSetMember', { numberOfKeys: 1, lua: ADD_SET_MEMBER });
  client.defineCommand('appendEntry', { numberOfKeys: 1, lua: APPEND_ENTRY });
  try {
    await refuseEviction(client);
    const subscriber = await connectSubscriber(client);
    return {
      ...values(client),
      ...sets(client),
      ...streams(client),
      rewrite: rewriter(client),
      ...redisChannels(client, subscriber, logger),
      replicated: waitForReplicas(client),
      openLimiter: (limits) =>
        new RateLimiterRedis({ ...limits, storeClient: client, rejectIfRedisNotReady: true }),
      ping: () => assertReady(client),
      close: async () =>
        void (await Promise.all([...new Set([client, subscriber])].map(closeRedis))),
    };
  } catch (error) {
    await closeRedis(client);
    throw error;
  }
}

/** What Redis takes for PX and PEXPIRE; empty for what never expires. */
function milliseconds(ttl: number): string {
  return ttl === Infinity ? '' : String(Math.ceil(ttl * 1000));
}

type Values = Pick<ByteStore, 'get' | 'set' | 'compareAndSwap' | 'getAndDelete' | 'delete'>;

function values(client: RedisClient): Values {
  return {
    get: async (name) => (await client.getBuffer(name)) ?? undefined,
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
      await client.del(name);
    },
  };
}

type Sets = Pick<ByteStore, 'addMember' | 'removeMember' | 'members'>;

function sets(client: RedisClient): Sets {
  return {
    async addMember(name, field, bytes, ttl) {
      await client.addSetMember(name, field, bytes, milliseconds(ttl));
    },
    async removeMember(name, field) {
      await client.hdel(name, field);
    },
    async members(name, from) {
      const [next, flat] = await client.hscanBuffer(name, from || '0', 'COUNT', MEMBERS_PER_PAGE);
      const members = pairs(flat);
      const cursor = next.toString();
      if (cursor === '0') return { members };
      return { members, next: cursor, ...(from ? {} : { total: await client.hlen(name) }) };
    },
  };
}

/** Fields and values in turn, as Redis gives them. */
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
      // Redis has no name for what is before its first id.
      if (newestFirst && from === '(0-0') return [];
      const entries = newestFirst
        ? await client.xrevrangeBuffer(name, from ?? '+', '-', 'COUNT', limit)
        : await client.xrangeBuffer(name, from ?? '-', '+', 'COUNT', limit);
      return entries.map(([id, [, bytes = NOTHING]]) => [entryId(id.toString()), bytes]);
    },
  };
}

/** `<milliseconds>-<sequence>` in 16 digits each, so that ids sort as text. */
function entryId(id: string): string {
  return id
    .split('-')
    .map((part) => part.padStart(16, '0'))
    .join('');
}

function redisId(id: string): string {
  return `${Number(id.slice(0, 16))}-${Number(id.slice(16))}`;
}

// INFO is answered while Redis still loads its data and before the connection is ready for other commands.
async function assertReady(client: RedisClient): Promise<void> {
  if (client.status !== 'ready') throw new Error(`the connection to Redis is ${client.status}`);
  await refuseEviction(client);
}

/** Redis is the system of record: a server that drops records at will, whatever their lifetime, must not be used. */
async function refuseEviction(client: RedisClient): Promise<void> {
  const [, policy] = /^maxmemory_policy:(\S+)/m.exec(await client.info('memory')) ?? [];
  if (policy?.startsWith('allkeys-')) {
    throw new Error(
      `Redis drops records when memory is short: set maxmemory-policy to noeviction, not ${policy}`,
    );
  }
}
