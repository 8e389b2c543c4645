import { dirname, resolve } from 'node:path';
import type { HostPort, StoreAddress } from '../settings/addresses.ts';
import type { ByteStore } from './byte-store.ts';
import { type CallWindows, callWindows } from './call-windows.ts';
import { counters, type OpenCounter } from './counters.ts';
import { encryptedStore } from './encrypted-store.ts';
import type { RootSecrets } from './key-derivation.ts';
import { networkNotice } from './network-file-system.ts';
import { type Rewrap, rewrapStore } from './rewrap.ts';
import { StoreInUse, type Store, type StoreLogger, StoreNotOpened } from './store.ts';
import { type ExpectedStore, type KeyRing, openStoredKeys, secretsNotice } from './stored-keys.ts';
import { STORE_TIMEOUTS, type StoreTimeouts } from './timeout.ts';
import { version } from '../version.ts';

/** All processes that share a store have the same secrets. */
export type StoreOptions = RootSecrets &
  ExpectedStore & {
    /** Directory of the SQLite file, if its path is relative. */
    dataDir: string;
    logger?: StoreLogger;
    /** No other process may have the SQLite file open, before and meanwhile. Throws StoreInUse. */
    isExclusive?: boolean;
    /** Seconds since the epoch, for expiry in SQLite and in memory. Redis uses its own clock. */
    now?: () => number;
    /** Only tests set these. */
    timeouts?: Partial<StoreTimeouts>;
  };

export type OpenedStore = Store & {
  openCounter: OpenCounter;
  /** Keys for one purpose, independent of those for others. */
  keyRing(purpose: string): KeyRing;
  rewrap: Rewrap;
  callWindows: CallWindows;
  /** What an operator should know about the store and its keys, in lines for the log. */
  notices: readonly string[];
  /** For `storeId` in the settings. */
  id?: string | undefined;
  /** Where the store is, if it was empty and is new. */
  createdAt?: string;
};

/** Resolves when the store answers. Throws StoreNotOpened if it does not, or if it was written with another root secret. */
export async function openStore(
  address: StoreAddress,
  options: StoreOptions,
): Promise<OpenedStore> {
  const bytes = await openBytes(address, options);
  try {
    const at = locationOf(address, options.dataDir);
    const { keys, opening } = await openStoredKeys(bytes, { ...options, at }, version);
    const { encryption } = keys;
    const store = encryptedStore(bytes, encryption, { ...STORE_TIMEOUTS, ...options.timeouts });
    const { now = secondsNow } = options;
    const windows = callWindows({ bytes, encryption, now });
    return {
      ...store,
      keyRing: keys.ring,
      openCounter: counters(bytes, encryption, now),
      callWindows: windows,
      async close() {
        await windows.close();
        await store.close();
      },
      ping: async () => {
        await store.ping();
        await keys.follow();
      },
      rewrap: rewrapStore(bytes, keys, options),
      id: keys.state().envelope.id,
      ...(opening === 'created' && { createdAt: at }),
      notices: [
        ...(opening === 'converted' ? [CONVERTED] : []),
        ...[
          secretsNotice(keys.state(), options),
          address.kind === 'sqlite'
            ? await networkNotice(dirname(resolve(options.dataDir, address.file)))
            : undefined,
        ].filter((notice) => notice !== undefined),
      ],
    };
  } catch (error) {
    await bytes.close();
    throw error instanceof StoreNotOpened ? error : notOpened(address, options, error);
  }
}

const CONVERTED =
  'the store of version 0.1.0 was converted: processes of that version can no longer use it';

const secondsNow = () => Date.now() / 1000;

/** Loads only the kind of store that is opened, because a client library takes long to load. */
async function openBytes(address: StoreAddress, options: StoreOptions): Promise<ByteStore> {
  const { dataDir, logger, now, timeouts, isExclusive } = options;
  try {
    if (address.kind !== 'sqlite') {
      const { openRedis } = await import('./redis.ts');
      return await openRedis(address, logger, { ...STORE_TIMEOUTS, ...timeouts });
    }
    const { openSqlite } = await import('./sqlite.ts');
    return openSqlite(resolve(dataDir, address.file), { now, logger, isExclusive });
  } catch (cause) {
    if (cause instanceof StoreInUse) throw cause;
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
