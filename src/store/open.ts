// Opens the store an address names, and stops a process whose root secret is not the one the store was written with.
import { createSecretKey, type KeyObject } from 'node:crypto';
import { resolve } from 'node:path';
import type { HostPort, StoreAddress } from '../settings/store-address.ts';
import type { ByteStore } from './byte-store.ts';
import { counters, type OpenCounter } from './counters.ts';
import { deriveKeys } from './keys.ts';
import type { Logger } from './logger.ts';
import { NAMING } from './naming-key.ts';
import { openRedis } from './redis.ts';
import { type Pace, type Resealing, type ResealingLogger, startResealing } from './reseal.ts';
import { openSealer, type SealerKeys } from './seal.ts';
import { sealedStore } from './sealed.ts';
import { openSqlite } from './sqlite.ts';
import { type Store, StoreUnavailable } from './store.ts';

export type StoreOptions = {
  /** The root secret; all processes that share a store have the same one. */
  secret: string;
  /** The root secret before this one, while values that were sealed with it are around. */
  previousSecret?: string | undefined;
  /** The folder of the SQLite file, when its name is relative. */
  dataDir: string;
  logger?: Logger;
  /** Seconds since 1970, for expiry in SQLite and in memory; Redis has its own clock. */
  now?: () => number;
};

export type OpenedStore = Store & {
  openCounter: OpenCounter;
  /** Seals anew in the background what the previous secret sealed; to be stopped before the store is closed. */
  startResealing(logger: ResealingLogger, pace?: Partial<Pace>): Resealing;
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
  const keys = deriveKeys(options.secret, options.previousSecret);
  const bytes = await openBytes(address, options);
  try {
    const naming = await keepNamingKey(bytes, keys, keys.naming);
    const sealer = openSealer({ ...keys, naming });
    const store = sealedStore(bytes, sealer);
    return {
      ...store,
      openCounter: counters(bytes, sealer, options.now ?? secondsNow),
      ping: () => pingOwn(store, bytes, { ...keys, naming }),
      startResealing: (logger, pace) => startResealing(bytes, keys, logger, pace),
    };
  } catch (error) {
    await bytes.close();
    throw error;
  }
}

const secondsNow = () => Date.now() / 1000;

/**
 * The key that hides ids never changes, because that would lose every record. It comes from the root secret of the first day and is kept in
 * the store, sealed with the secret of today: so this is also where a wrong secret is found out.
 */
async function keepNamingKey(
  bytes: ByteStore,
  keys: SealerKeys,
  own: KeyObject,
): Promise<KeyObject> {
  const sealer = openSealer(keys);
  const sealed = () => sealer.seal(NAMING, own.export().toString('base64url'));
  const there = await bytes.exchange(NAMING, undefined, sealed(), Infinity);
  if (there === true || there === undefined) return own;
  const kept = sealer.open<string>(NAMING, there);
  if (kept === undefined) {
    throw new StoreNotOpened(
      'the store was written with another secret: set GATEHOUSE_SECRET to the one it was made with',
    );
  }
  if (!openSealer({ ...keys, ring: keys.ring.slice(0, 1) }).open(NAMING, there)) {
    await bytes.exchange(NAMING, there, sealer.seal(NAMING, kept), Infinity);
  }
  return createSecretKey(Buffer.from(kept, 'base64url'));
}

/** A store that lost its data is given our naming key again; one that was begun anew with another is not ours any more. */
async function pingOwn(store: Store, bytes: ByteStore, keys: SealerKeys): Promise<void> {
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
