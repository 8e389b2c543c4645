// The engine's Client model. A client expires soon unless a person approves it, and later once it is no longer used.
import type { Adapter, AdapterPayload } from 'oidc-provider';
import { secretDigest } from '../../clients/client-secrets.ts';
import { CLIENT_ID, clientKey, type StoredClient, type LastUse } from '../../clients/clients.ts';
import { cachedReader, type CachedReader, type CacheLifetimes } from '../../store/cached-reader.ts';
import { type Found, KEEP, type Next, type Store } from '../../store/store.ts';
import { currentRequest } from './engine-request.ts';
import type { RedirectPolicy } from './redirect-uris.ts';
import { stillAccepted } from './registration.ts';

/** In seconds. */
export type ClientLifetimes = { unusedClient: number; usedClient: number };

export type Clients = {
  model: Partial<Adapter>;
  /** Reads the client again when it is needed next. */
  drop: (clientId: string) => void;
  /**
   * Call after consent, with the `appVersion` that the person approved, and after refreshes. Extends the lifetime of the client's record, at most
   * once a day.
   */
  touch: (clientId: string, version?: string) => Promise<void>;
};

const CACHE_SECONDS = 5;
const DAY_SECONDS = 86_400;

export type ClientOptions = {
  store: Store;
  lifetimes: ClientLifetimes;
  now: () => number;
  redirectPolicy: RedirectPolicy;
  /** Extends the lifetime of the stored copy of a metadata document. */
  touchDocument: (url: string, version?: string) => Promise<void>;
  preRegistered: ReadonlySet<string>;
};

export function registeredClients({
  store,
  lifetimes,
  now,
  redirectPolicy,
  touchDocument,
  preRegistered,
}: ClientOptions): Clients {
  const records = clientRecords<StoredClient<AdapterPayload>>(store, clientKey, lifetimes, {
    freshFor: CACHE_SECONDS,
    staleIfErrorFor: CACHE_SECONDS,
    now,
  });
  return {
    model: {
      async upsert(id, metadata) {
        const { client_secret: secret } = metadata;
        const stored =
          secret === undefined
            ? metadata
            : { ...metadata, client_secret: secretDigest(String(secret)) };
        const writing = store.set<StoredClient<AdapterPayload>>(
          clientKey(id),
          { metadata: stored },
          lifetimes.unusedClient,
        );
        currentRequest()?.onRegistered?.();
        await writing;
      },
      async find(id) {
        // A metadata document's URL is never a registered client.
        const stored = CLIENT_ID.test(id) ? (await records.read(id))?.metadata : undefined;
        return stored && stillAccepted(stored, redirectPolicy);
      },
      async destroy(id) {
        await store.delete(clientKey(id));
        records.drop(id);
      },
    },
    drop: records.drop,
    async touch(id, version) {
      if (preRegistered.has(id)) return;
      await (CLIENT_ID.test(id) ? records.touch(id) : touchDocument(id, version));
    },
  };
}

export type ClientRecords<T extends LastUse> = CachedReader<T> & {
  /** Extends the lifetime of a record, if it exists, at most once a day or once per tenth of a shorter lifetime, and stores a new version. */
  touch: (id: string, version?: string) => Promise<void>;
};

/** Reads records of registered clients or metadata documents through a cache. Their TTL depends on their last use. */
export function clientRecords<T extends LastUse>(
  store: Store,
  keyOf: (id: string) => string,
  lifetimes: ClientLifetimes,
  { freshFor, staleIfErrorFor, now }: Required<CacheLifetimes>,
): ClientRecords<T> {
  /** The stored bytes of cached records. */
  const stored = new WeakMap<T, Buffer>();
  const opened = (found: Found<T> | undefined) => {
    if (found) stored.set(found.value, found.raw);
    return found?.value;
  };
  const load = async (id: string) => opened(await store.get<T>(keyOf(id)));
  const reader = cachedReader<T>(load, { freshFor, staleIfErrorFor, now });
  const interval = Math.min(DAY_SECONDS, lifetimes.usedClient / 10);
  return {
    ...reader,
    async touch(id, version) {
      const known = await reader.read(id);
      if (!known) return;
      const isRecent = known.usedAt !== undefined && now() - known.usedAt < interval;
      if (isRecent && (version === undefined || version === known.allowedAs)) return;
      const allowed = version === undefined ? {} : { allowedAs: version };
      const used = (record: T | undefined): Next<T> =>
        record
          ? {
              value: { ...record, ...allowed, usedAt: Math.floor(now()) },
              ttl: lifetimes.usedClient,
            }
          : KEEP;
      const raw = stored.get(known);
      const seen = raw && { value: known, raw };
      const after = opened(await store.update<T>(keyOf(id), used, seen));
      if (after) reader.put(id, after);
      else reader.drop(id);
    },
  };
}
