// Reads the raw contents of a store, past the system.
import { DatabaseSync } from 'node:sqlite';
import { Redis } from 'ioredis';

/** The name of the record, with its field or entry if there is one. */
export type StoredBytes = { name: string; bytes: Buffer };

/** `address` has the form of GATEHOUSE_STORE; returns only records whose name starts with `prefix`. */
export async function readStoredBytes(address: string, prefix = ''): Promise<StoredBytes[]> {
  const all = address.startsWith('sqlite:')
    ? readSqlite(address.slice('sqlite:'.length))
    : await readRedis(address);
  return all
    .filter(({ name }) => name.startsWith(prefix))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function readSqlite(file: string): StoredBytes[] {
  const db = new DatabaseSync(file, { readOnly: true });
  const rows = db
    .prepare(
      `SELECT name, value FROM entry
       UNION ALL SELECT name || ' ' || field, value FROM member
       UNION ALL SELECT name || ' ' || id, value FROM stream
       UNION ALL SELECT name || ' ' || number, value FROM log_entry JOIN log ON log.id = log_entry.log
       UNION ALL SELECT name || ' ' || part || first, rows FROM log_block JOIN log ON log.id = log_block.log
       UNION ALL SELECT channel || ' ' || id, body FROM message`,
    )
    .all();
  db.close();
  return rows.map(({ name, value }) => ({
    name: String(name),
    bytes: Buffer.from(value as Uint8Array),
  }));
}

async function readRedis(url: string): Promise<StoredBytes[]> {
  const redis = new Redis(url);
  const names = await redis.keys('*');
  const found = await Promise.all(names.map((name) => readRedisKey(redis, name)));
  redis.disconnect();
  return found.flat();
}

async function readRedisKey(redis: Redis, name: string): Promise<StoredBytes[]> {
  switch (await redis.type(name)) {
    case 'string':
      return [{ name, bytes: (await redis.getBuffer(name)) ?? Buffer.alloc(0) }];
    case 'hash': {
      const fields = Object.entries(await redis.hgetallBuffer(name));
      return fields.map(([field, bytes]) => ({ name: `${name} ${field}`, bytes }));
    }
    case 'stream': {
      const entries = await redis.xrangeBuffer(name, '-', '+');
      return entries.flatMap(([id, fields]) =>
        fields.map((bytes) => ({ name: `${name} ${id}`, bytes })),
      );
    }
    case 'zset':
      return (await redis.zrangeBuffer(name, '0', '-1')).map((bytes) => ({
        name: `${name} ${bytes.toString('latin1')}`,
        bytes,
      }));
    case 'none':
      return [];
    default:
      throw new Error(`${name} is of a kind that nobody reads here`);
  }
}
