import type { Redis } from 'ioredis';

/** Returns every key with its values, fields and entries. */
export async function dumpAll(raw: Redis): Promise<Buffer> {
  const keys = await raw.keysBuffer('*');
  const parts = await Promise.all(keys.map(async (key) => [key, ...(await contentOf(raw, key))]));
  return Buffer.concat(parts.flat());
}

async function contentOf(raw: Redis, key: Buffer): Promise<Buffer[]> {
  switch (await raw.type(key)) {
    case 'string':
      return [await bytesOf(raw, key)];
    case 'hash':
      return Object.entries(await raw.hgetallBuffer(key)).flatMap(([field, value]) => [
        Buffer.from(field),
        value,
      ]);
    case 'zset':
      return raw.zrangeBuffer(key, '0', '-1');
    case 'stream':
      return (await raw.xrangeBuffer(key, '-', '+')).flatMap(([, fields]) => fields);
    // It expired meanwhile.
    case 'none':
      return [];
    default:
      throw new Error('the store has a key of an unsupported type');
  }
}

export async function bytesOf(raw: Redis, key: Buffer | string): Promise<Buffer> {
  return (await raw.getBuffer(key)) ?? Buffer.alloc(0);
}

/** Overwrites the value of the only key of kind `to` with that of the only key of kind `from`. */
export async function copyBytes(raw: Redis, from: string, to: string): Promise<void> {
  const [source, ...moreSources] = await raw.keys(`${from}:*`);
  const [target, ...moreTargets] = await raw.keys(`${to}:*`);
  if (!source || !target || moreSources.length || moreTargets.length) {
    throw new Error('expected exactly one key of each kind');
  }
  await raw.set(target, await bytesOf(raw, source));
}
