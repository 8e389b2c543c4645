// Moves slots of a Redis Cluster between masters while they are in use, as resharding does.
import type { RedisNode } from '../../store/redis-topologies.ts';

/** The slots on `node` of keys of one kind. */
export async function slotsOf({ raw }: RedisNode, kind: string): Promise<number[]> {
  const keys = await raw.keys(`${kind}:*`);
  const slots = await Promise.all(keys.map((key) => raw.call('CLUSTER', 'KEYSLOT', key)));
  return [...new Set(slots.map(Number))];
}

/** Moves the keys one by one, so that the slot is on both nodes meanwhile. `masters` learn the new owner at the end. */
export async function moveSlot(
  slot: number,
  [from, to]: [RedisNode, RedisNode],
  masters: readonly RedisNode[],
): Promise<void> {
  const [fromId, toId] = await Promise.all(
    [from, to].map(({ raw }) => raw.call('CLUSTER', 'MYID')),
  );
  await to.raw.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(fromId));
  await from.raw.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(toId));
  for (;;) {
    const keys = await from.raw.call('CLUSTER', 'GETKEYSINSLOT', slot, 1);
    const [key] = Array.isArray(keys) ? keys : [];
    if (key === undefined) break;
    await from.raw.call('MIGRATE', '127.0.0.1', to.port, String(key), 0, 5000);
  }
  for (const { raw } of [to, from, ...masters])
    await raw.call('CLUSTER', 'SETSLOT', slot, 'NODE', String(toId));
}
