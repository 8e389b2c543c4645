// Opens the store an address names, and stops a process whose root secret is not the one the store was written with.
import { resolve } from 'node:path';
import type { HostPort, StoreAddress } from '../settings/store-address.ts';
import type { ByteStore } from './byte-store.ts';
import { deriveKeys } from './keys.ts';
import type { Logger } from './logger.ts';
import { openRedis } from './redis.ts';
import { openSealer, type Sealer } from './seal.ts';
import { sealedStore } from './sealed.ts';
import { openSqlite } from './sqlite.ts';
import type { Store } from './store.ts';

export type StoreOptions = {
  /** The root secret; all processes that share a store have the same one. */
  secret: string;
  /** The folder of the SQLite file, when its name is relative. */
  dataDir: string;
  logger?: Logger;
  /** Seconds since 1970, for expiry in SQLite; Redis has its own clock. */
  now?: () => number;
};

// Not hidden by the sealer: a process with another secret has to find it.
const CANARY = 'canary:secret';

/** Resolves when the store answers. Throws an error that says what to do when it does not, or when the secret is another one. */
export async function openStore(address: StoreAddress, options: StoreOptions): Promise<Store> {
  const sealer = openSealer(deriveKeys(options.secret));
  const bytes = await openBytes(address, options);
  try {
    await checkSecret(bytes, sealer);
  } catch (error) {
    await bytes.close();
    throw error;
  }
  return sealedStore(bytes, sealer);
}

async function openBytes(
  address: StoreAddress,
  { dataDir, logger, now }: StoreOptions,
): Promise<ByteStore> {
  try {
    if (address.kind !== 'sqlite') return await openRedis(address, logger);
    return openSqlite(resolve(dataDir, address.file), { now, logger });
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(
      `the store at ${placeOf(address, dataDir)} cannot be opened: ${reason}; check GATEHOUSE_STORE`,
      { cause },
    );
  }
}

/** Without user name and password, because it goes to the log. */
function placeOf(address: StoreAddress, dataDir: string): string {
  if (address.kind === 'sqlite') return resolve(dataDir, address.file);
  if (address.kind === 'redis') return new URL(address.url).host;
  return address.nodes.map(({ host, port }: HostPort) => `${host}:${port}`).join(',');
}

async function checkSecret(bytes: ByteStore, sealer: Sealer): Promise<void> {
  const there = await bytes.exchange(CANARY, undefined, sealer.seal(CANARY, CANARY), Infinity);
  if (there === true || (there && sealer.open(CANARY, there) === CANARY)) return;
  throw new Error(
    'the store was written with another secret: set GATEHOUSE_SECRET to the one it was made with',
  );
}
