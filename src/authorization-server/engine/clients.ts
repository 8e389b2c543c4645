// Registered clients in the store: a day for one that nobody approved, months after its last use for one that somebody did.
import type { Adapter, AdapterPayload } from 'oidc-provider';
import { cachedReader } from '../../store/cached-reader.ts';
import { KEEP, type Store } from '../../store/store.ts';
import { secretDigest } from './client-secrets.ts';

/** `usedAt` in seconds; absent until the first consent was completed. */
type StoredClient = { metadata: AdapterPayload; usedAt?: number };

/** Both in seconds. */
export type ClientLifetimes = { unusedClient: number; usedClient: number };

export type Clients = {
  model: Partial<Adapter>;
  /** Called when a person's approval was exchanged and at refreshes: prolongs the registration, at most once a day. */
  touch: (clientId: string) => Promise<void>;
};

const DAY = 86_400;
const CLIENT_ID = /^[\w-]{16,64}$/;
const CACHED_FOR = 5;
const clientKey = (id: string) => `client:${id}`;

export function registeredClients(
  store: Store,
  lifetimes: ClientLifetimes,
  now: () => number,
): Clients {
  const reader = cachedReader(async (id) => (await store.get<StoredClient>(clientKey(id)))?.value, {
    freshFor: CACHED_FOR,
    usableFor: CACHED_FOR,
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
        await store.set<StoredClient>(clientKey(id), { metadata: stored }, lifetimes.unusedClient);
      },
      async find(id) {
        // A metadata document's URL is never a registered client.
        return CLIENT_ID.test(id) ? (await reader.read(id))?.metadata : undefined;
      },
      async destroy(id) {
        await store.delete(clientKey(id));
        reader.drop(id);
      },
    },
    async touch(id) {
      if (!CLIENT_ID.test(id)) return;
      const known = await reader.read(id);
      if (!known || (known.usedAt !== undefined && now() - known.usedAt < DAY)) return;
      await store.update<StoredClient>(clientKey(id), (client) =>
        client
          ? { value: { ...client, usedAt: Math.floor(now()) }, ttl: lifetimes.usedClient }
          : KEEP,
      );
      reader.drop(id);
    },
  };
}
