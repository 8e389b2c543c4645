import { randomBytes } from 'node:crypto';

const RANDOM_POOL_BYTES = 4096;

/** Requests random bytes in blocks, because each request costs more than to encrypt a record. */
export function pooledRandom(): (size: number) => Buffer {
  let pool = Buffer.alloc(0);
  return (size) => {
    if (pool.length < size) pool = randomBytes(RANDOM_POOL_BYTES);
    const bytes = pool.subarray(0, size);
    pool = pool.subarray(size);
    return bytes;
  };
}
