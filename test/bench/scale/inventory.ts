// What a Redis holds, by kind of key: how many keys, how many bytes were stored, and the memory that a key takes.
import type { Redis } from 'ioredis';

/** `keys` and, of sets, `members`; `bytes` are those of the values, encrypted as they lie there. */
export type Holding = { keys: number; members: number; bytes: number };

export type Inventory = Record<string, Holding>;

const NOTHING: Holding = { keys: 0, members: 0, bytes: 0 };
const SAMPLED = 200;

/** Of all kinds; reads everything, so for a Redis that holds little. */
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

/** What came to be between two inventories, kinds that did not change left out. */
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

/** Bytes of memory that one key of this kind takes, its name included: the mean of some. Undefined when there is none. */
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

/** Bytes that Redis says its data and what it needs for them take. */
export async function usedMemory(redis: Redis): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1]);
}

function kindOf(name: string): string {
  return name.split(':', 1)[0] ?? name;
}
