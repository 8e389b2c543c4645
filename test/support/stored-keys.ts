// Counts the keys of a store by kind, past the system. The rest of a key is a hash.
import { DatabaseSync } from 'node:sqlite';
import { Redis } from 'ioredis';
import type { System } from './system.ts';

/** Rate limit counters and the counts of the overview, which any request may add, the orders of sets, leases, and what attempts and the audit log write later. */
export function isWrittenAnyTime(name: string): boolean {
  return /^(limit|activity|order|entries|blocks|sent|attempts?|attempts?-[a-z-]+|audit-[a-z-]+|[a-z-]+-lease):/.test(
    name,
  );
}

/** By kind, for example `client`; without what is written at any time. */
export async function countStoredKeys({ storeAddress }: System): Promise<Record<string, number>> {
  const names = storeAddress.startsWith('sqlite:')
    ? namesInSqlite(storeAddress.slice('sqlite:'.length))
    : await namesInRedis(storeAddress);
  const counts: Record<string, number> = {};
  for (const name of names) {
    if (isWrittenAnyTime(name)) continue;
    const [kind = ''] = name.split(':');
    counts[kind] = (counts[kind] ?? 0) + 1;
  }
  return counts;
}

function namesInSqlite(file: string): string[] {
  const db = new DatabaseSync(file, { readOnly: true });
  const rows = db.prepare('SELECT name FROM entry UNION ALL SELECT name FROM member').all();
  db.close();
  return rows.map(({ name }) => String(name));
}

async function namesInRedis(url: string): Promise<string[]> {
  const redis = new Redis(url);
  const names = await redis.keys('*');
  redis.disconnect();
  return names;
}
