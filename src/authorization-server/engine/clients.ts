// Registered clients in the store. A client expires soon unless a person approves it, and later once it is no longer used.
import type { Adapter, AdapterPayload } from 'oidc-provider';
import { CLIENT_ID, clientKey, type StoredClient } from '../../clients/stored-clients.ts';
import type { Store } from '../../store/store.ts';
import { secretDigest } from './client-secrets.ts';
import type { DocumentCopies } from './document-copies.ts';
import { type ClientLifetimes, clientRecords } from './client-records.ts';

export type Clients = {
  model: Partial<Adapter>;
  /** Called after consent and refreshes. Prolongs the client's record, at most once a day. */
  touch: (clientId: string) => Promise<void>;
};

const CACHED_FOR = 5;

export function registeredClients(
  store: Store,
  lifetimes: ClientLifetimes,
  now: () => number,
  copies: DocumentCopies,
  preRegistered: ReadonlySet<string>,
): Clients {
  const records = clientRecords<StoredClient<AdapterPayload>>(store, clientKey, lifetimes, {
    freshFor: CACHED_FOR,
    staleIfErrorFor: CACHED_FOR,
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
        await store.set<StoredClient<AdapterPayload>>(
          clientKey(id),
          { metadata: stored },
          lifetimes.unusedClient,
        );
      },
      async find(id) {
        // A metadata document's URL is never a registered client.
        return CLIENT_ID.test(id) ? (await records.read(id))?.metadata : undefined;
      },
      async destroy(id) {
        await store.delete(clientKey(id));
        records.drop(id);
      },
    },
    async touch(id) {
      if (preRegistered.has(id)) return;
      await (CLIENT_ID.test(id) ? records.touch(id) : copies.touch(id));
    },
  };
}
