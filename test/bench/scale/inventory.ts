// The contents of a Redis by kind of key: number of keys, stored bytes, and memory of a key.
import type { Redis } from 'ioredis';

/** `keys` and, for sets, `members`; `bytes` are those of the encrypted values. */
export type Holding = { keys: number; members: number; bytes: number };

export type Inventory = Record<string, Holding>;

const NOTHING: Holding = { keys: 0, members: 0, bytes: 0 };
const SAMPLED = 200;

/** The inventory of all kinds. Reads everything, so use it on a small Redis only. */
export async function takeInventory(redis: Redis): Promise<Inventory> {
  const inventory: Inventory = {};
  for (const name of await redis.keys('*')) {
    const { keys, members, bytes } = (inventory[kindOf(name)] ??= { ...NOTHING });
    const held = await sizesIn(redis, name);
    inventory[kindOf(name)] = {
      keys: keys + 1,
      members: members + held.members,
      bytes: bytes + held.bytes,
    };
  }
  return inventory;
}

async function sizesIn(redis: Redis, name: string): Promise<Omit<Holding, 'keys'>> {
  const type = await redis.type(name);
  if (type === 'string') return { members: 0, bytes: await redis.strlen(name) };
  if (type !== 'hash') return { members: 0, bytes: 0 };
  const values = await redis.hvalsBuffer(name);
  return { members: values.length, bytes: values.reduce((sum, { length }) => sum + length, 0) };
}

/** The growth between two inventories, without kinds that did not change. */
export function difference(before: Inventory, after: Inventory): Inventory {
  const changes = Object.entries(after).map(([kind, { keys, members, bytes }]) => {
    const earlier = before[kind] ?? NOTHING;
    const change = {
      keys: keys - earlier.keys,
      members: members - earlier.members,
      bytes: bytes - earlier.bytes,
    };
    return [kind, change] as const;
  });
  return Object.fromEntries(changes.filter(([, { keys, members }]) => keys !== 0 || members !== 0));
}

/** The mean memory in bytes of a key of this kind, including its name. Undefined if there is none. */
export async function memoryOf(redis: Redis, kind: string): Promise<number | undefined> {
  const sampled: number[] = [];
  for await (const names of redis.scanStream({ match: `${kind}:*`, count: 5000 })) {
    for (const name of names as string[]) sampled.push((await redis.memory('USAGE', name)) ?? 0);
    if (sampled.length >= SAMPLED) break;
  }
  return sampled.length === 0
    ? undefined
    : sampled.reduce((sum, bytes) => sum + bytes, 0) / sampled.length;
}

/** The memory in bytes that Redis reports for its data set. */
export async function usedMemory(redis: Redis): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1]);
}

function kindOf(name: string): string {
  return name.split(':', 1)[0] ?? name;
}
