import { resolve } from 'node:path';
import type { BackgroundLoop } from '../background-loop.ts';
import type { HostPort, StoreAddress } from '../settings/addresses.ts';
import type { ByteStore } from './byte-store.ts';
import { counters, type OpenCounter } from './counters.ts';
import { encryptedStore } from './encrypted-store.ts';
import { createEncryption, type EncryptionKeys } from './encryption.ts';
import { deriveStoreKeys, type RootSecrets } from './key-derivation.ts';
import { loadNameKey } from './name-key.ts';
import {
  type ReencryptionIntervals,
  type ReencryptionLogger,
  startReencryption,
} from './reencrypt.ts';
import { type Store, type StoreLogger, StoreNotOpened, StoreUnavailable } from './store.ts';
import { STORE_TIMEOUTS, type StoreTimeouts } from './timeout.ts';

/** All processes that share a store have the same secrets. */
export type StoreOptions = RootSecrets & {
  /** Directory of the SQLite file, if its path is relative. */
  dataDir: string;
  logger?: StoreLogger;
  /** Seconds since the epoch, for expiry in SQLite and in memory. Redis uses its own clock. */
  now?: () => number;
  /** Only tests set these. */
  timeouts?: Partial<StoreTimeouts>;
};

export type OpenedStore = Store & {
  openCounter: OpenCounter;
  /** Re-encrypts values of the previous secret in the background. Stop it before closing the store. */
  startReencryption(
    logger: ReencryptionLogger,
    intervals?: Partial<ReencryptionIntervals>,
  ): BackgroundLoop;
};

/** Resolves when the store answers. Throws StoreNotOpened if it does not, or if it was written with another root secret. */
export async function openStore(
  address: StoreAddress,
  options: StoreOptions,
): Promise<OpenedStore> {
  const keys = deriveStoreKeys(options);
  const bytes = await openBytes(address, options);
  try {
    const nameKey = await loadNameKey(bytes, keys);
    const encryption = createEncryption({ ...keys, nameKey });
    const store = encryptedStore(bytes, encryption, { ...STORE_TIMEOUTS, ...options.timeouts });
    return {
      ...store,
      openCounter: counters(bytes, encryption, options.now ?? secondsNow),
      ping: async () => {
        await store.ping();
        await requireNameKey(bytes, { ...keys, nameKey });
      },
      startReencryption: (logger, intervals) => startReencryption(bytes, keys, logger, intervals),
    };
  } catch (error) {
    await bytes.close();
    throw error instanceof StoreNotOpened ? error : notOpened(address, options, error);
  }
}

const secondsNow = () => Date.now() / 1000;

/** Stores our name key again if the store lost its data. Throws if another process has since stored a different one. */
async function requireNameKey(bytes: ByteStore, keys: EncryptionKeys): Promise<void> {
  const stored = await loadNameKey(bytes, keys).catch((cause: unknown) => {
    throw new StoreUnavailable(cause);
  });
  if (stored.equals(keys.nameKey)) return;
  throw new StoreUnavailable(
    new Error('the store was emptied and initialized with another key: restart this process'),
  );
}

/** Loads only the kind of store that is opened, because a client library takes long to load. */
async function openBytes(address: StoreAddress, options: StoreOptions): Promise<ByteStore> {
  const { dataDir, logger, now, timeouts } = options;
  try {
    if (address.kind !== 'sqlite') {
      const { openRedis } = await import('./redis.ts');
      return await openRedis(address, logger, { ...STORE_TIMEOUTS, ...timeouts });
    }
    const { openSqlite } = await import('./sqlite.ts');
    return openSqlite(resolve(dataDir, address.file), { now, logger });
  } catch (cause) {
    throw notOpened(address, options, cause);
  }
}

function notOpened(
  address: StoreAddress,
  { dataDir }: Pick<StoreOptions, 'dataDir'>,
  cause: unknown,
): StoreNotOpened {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new StoreNotOpened(
    `the store at ${locationOf(address, dataDir)} cannot be opened: ${reason}; check GATEHOUSE_STORE`,
    { cause },
  );
}

/** Leaves out user name and password, because it is logged. */
function locationOf(address: StoreAddress, dataDir: string): string {
  if (address.kind === 'sqlite') return resolve(dataDir, address.file);
  if (address.kind === 'redis') return new URL(address.url).host;
  return address.nodes.map(({ host, port }: HostPort) => `${host}:${port}`).join(',');
}
