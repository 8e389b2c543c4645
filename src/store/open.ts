// Opens the store an address names, and stops a process whose root secret is not the one the store was written with.
import { createSecretKey, type KeyObject } from 'node:crypto';
import { resolve } from 'node:path';
import type { HostPort, StoreAddress } from '../settings/store-address.ts';
import type { ByteStore } from './byte-store.ts';
import { counters, type OpenCounter } from './counters.ts';
import { deriveStoreKeys } from './keys.ts';
import type { Logger } from './logger.ts';
import { NAMING } from './naming-key.ts';
import { openRedis } from './redis.ts';
import {
  type Pace,
  type Reencryption,
  type ReencryptionLogger,
  startReencryption,
} from './reencrypt.ts';
import { createEncryption, type EncryptionKeys } from './encryption.ts';
import { encryptedStore } from './encrypted-store.ts';
import { openSqlite } from './sqlite.ts';
import { type Store, StoreUnavailable } from './store.ts';

export type StoreOptions = {
  /** The root secret; all processes that share a store have the same one. */
  secret: string;
  /** The root secret before this one, while values that were encrypted with it are around. */
  previousSecret?: string | undefined;
  /** The folder of the SQLite file, when its name is relative. */
  dataDir: string;
  logger?: Logger;
  /** Seconds since 1970, for expiry in SQLite and in memory; Redis has its own clock. */
  now?: () => number;
};

export type OpenedStore = Store & {
  openCounter: OpenCounter;
  /** Re-encrypts in the background what the previous secret encrypted; to be stopped before the store is closed. */
  startReencryption(logger: ReencryptionLogger, pace?: Partial<Pace>): Reencryption;
};

/** Why a process cannot start with this store; the message says what to do. */
export class StoreNotOpened extends Error {
  override name = 'StoreNotOpened';
}

/** Resolves when the store answers. Throws StoreNotOpened when it does not, or when the secret is another one. */
export async function openStore(
  address: StoreAddress,
  options: StoreOptions,
): Promise<OpenedStore> {
  const keys = deriveStoreKeys(options.secret, options.previousSecret);
  const bytes = await openBytes(address, options);
  try {
    const naming = await keepNamingKey(bytes, keys, keys.naming);
    const encryption = createEncryption({ ...keys, naming });
    const store = encryptedStore(bytes, encryption);
    return {
      ...store,
      openCounter: counters(bytes, encryption, options.now ?? secondsNow),
      ping: () => pingOwn(store, bytes, { ...keys, naming }),
      startReencryption: (logger, pace) => startReencryption(bytes, keys, logger, pace),
    };
  } catch (error) {
    await bytes.close();
    throw error;
  }
}

const secondsNow = () => Date.now() / 1000;

/**
 * The key that hides ids never changes, because that would lose every record. It comes from the root secret of the first day and is kept in
 * the store, encrypted with the secret of today: so this is also where a wrong secret is found out.
 */
async function keepNamingKey(
  bytes: ByteStore,
  keys: EncryptionKeys,
  own: KeyObject,
): Promise<KeyObject> {
  const encryption = createEncryption(keys);
  const encrypted = () => encryption.encrypt(NAMING, own.export().toString('base64url'));
  const there = await bytes.compareAndSwap(NAMING, undefined, encrypted(), Infinity);
  if (there === true || there === undefined) return own;
  const kept = encryption.decrypt<string>(NAMING, there);
  if (kept === undefined) {
    throw new StoreNotOpened(
      'the store was written with another secret: set GATEHOUSE_SECRET to the one it was made with',
    );
  }
  if (!createEncryption({ ...keys, ring: keys.ring.slice(0, 1) }).decrypt(NAMING, there)) {
    await bytes.compareAndSwap(NAMING, there, encryption.encrypt(NAMING, kept), Infinity);
  }
  return createSecretKey(Buffer.from(kept, 'base64url'));
}

/** A store that lost its data is given our naming key again; one that was begun anew with another is not ours any more. */
async function pingOwn(store: Store, bytes: ByteStore, keys: EncryptionKeys): Promise<void> {
  await store.ping();
  const kept = await keepNamingKey(bytes, keys, keys.naming).catch((cause: unknown) => {
    throw new StoreUnavailable(cause);
  });
  if (kept.equals(keys.naming)) return;
  throw new StoreUnavailable(
    new Error('the store was emptied and begun anew: restart this process'),
  );
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
    throw new StoreNotOpened(
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
