// Goes through all values and all members of sets that Redis holds and replaces their bytes, for the store to be re-encrypted.
import { Cluster, type Redis, type Result } from 'ioredis';
import type { ByteStore, Rewriting } from './byte-store.ts';
import type { RedisClient } from './redis-client.ts';

const SCANNED_AT_ONCE = 100;

const REPLACE_VALUE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1`;

const REPLACE_SET_MEMBER = `
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1`;

declare module 'ioredis' {
  interface RedisCommander<Context> {
    replaceValue(key: string, before: Buffer, next: Buffer): Result<0 | 1, Context>;
    replaceSetMember(
      key: string,
      field: string,
      before: Buffer,
      next: Buffer,
    ): Result<0 | 1, Context>;
  }
}

export function rewriter(client: RedisClient): ByteStore['rewrite'] {
  client.defineCommand('replaceValue', { numberOfKeys: 1, lua: REPLACE_VALUE });
  client.defineCommand('replaceSetMember', { numberOfKeys: 1, lua: REPLACE_SET_MEMBER });
  return async function* rewrite(rewriting) {
    for (const master of mastersOf(client)) {
      for await (const names of scanNames(master, 'string')) {
        yield await sumOf(names.map((name) => rewriteValue(client, name, rewriting)));
      }
      for await (const names of scanNames(master, 'hash')) {
        for (const name of names) yield* rewriteMembers(client, name, rewriting);
        yield 0;
      }
    }
  };
}

/** Every key is held by one of them. */
function mastersOf(client: RedisClient): Redis[] {
  const masters = client instanceof Cluster ? client.nodes('master') : [client];
  if (masters.length === 0) throw new Error('no master of the Redis Cluster is known');
  return masters;
}

function scanNames(master: Redis, type: 'string' | 'hash'): AsyncGenerator<string[]> {
  return pages((cursor) => master.scan(cursor, 'COUNT', SCANNED_AT_ONCE, 'TYPE', type));
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
  rewriting: Rewriting,
): Promise<number> {
  const before = await client.getBuffer(name);
  const next = before && rewriting(before, name);
  return before && next ? client.replaceValue(name, before, next) : 0;
}

async function* rewriteMembers(
  client: RedisClient,
  name: string,
  rewriting: Rewriting,
): AsyncGenerator<number> {
  for await (const flat of pages((cursor) =>
    client.hscanBuffer(name, cursor, 'COUNT', SCANNED_AT_ONCE),
  )) {
    yield await sumOf(
      membersIn(flat).map(async ([field, before]) => {
        const next = rewriting(before, name, field);
        return next ? client.replaceSetMember(name, field, before, next) : 0;
      }),
    );
  }
}

/** Field and value take turns in what HSCAN answers. */
function membersIn(flat: Buffer[]): [field: string, bytes: Buffer][] {
  return flat.flatMap((field, i) => {
    const bytes = i % 2 === 0 ? flat[i + 1] : undefined;
    return bytes ? [[field.toString(), bytes] as [string, Buffer]] : [];
  });
}

async function sumOf(counts: Promise<number>[]): Promise<number> {
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}
