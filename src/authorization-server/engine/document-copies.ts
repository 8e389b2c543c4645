// The last good copies of client ID metadata documents, shared through the store, and at hand in this process while the store is away.
import { documentKey, type StoredDocument } from '../../clients/stored-clients.ts';
import type { Store } from '../../store/store.ts';
import type { StoredMetadata } from './client-metadata.ts';
import { type ClientLifetimes, clientRecords } from './client-records.ts';

export type ClientDocument = StoredMetadata & { client_id: string };

export type Copy = StoredDocument<ClientDocument>;

export type DocumentCopies = {
  /** Rejects with StoreUnavailable when the store is away and the copy was not read within the hour. */
  find: (url: string) => Promise<Copy | undefined>;
  /** Keeps a document that may be used unchanged for `freshFor` seconds, within bounds of our own. */
  keep: (document: ClientDocument, freshFor: number) => Promise<void>;
  /** Called when a person approved and at refreshes. */
  touch: (url: string) => Promise<void>;
};

const FRESH_MIN = 300;
const FRESH_MAX = 86_400;
const READ_AGAIN = 60;
const USABLE = 3600;
/** Seconds that one person may take from the first request to the exchange: a copy must not end meanwhile. */
const FLOW = 1900;

export function documentCopies(
  store: Store,
  lifetimes: ClientLifetimes,
  now: () => number,
): DocumentCopies {
  const records = clientRecords<Copy>(store, documentKey, lifetimes, {
    freshFor: READ_AGAIN,
    staleIfErrorFor: USABLE,
    now,
  });
  const freshMax = Math.max(FRESH_MIN, Math.min(FRESH_MAX, lifetimes.unusedClient - FLOW));
  return {
    find: records.read,
    touch: records.touch,
    async keep(document, freshFor) {
      const url = document.client_id;
      const freshUntil = now() + Math.min(freshMax, Math.max(FRESH_MIN, freshFor));
      await store.update<Copy>(documentKey(url), (earlier) => {
        const usedAt = earlier?.usedAt;
        const used = usedAt === undefined ? {} : { usedAt };
        return {
          value: { document, freshUntil, ...used },
          ttl: secondsLeft(lifetimes, usedAt, now()),
        };
      });
      records.drop(url);
    },
  };
}

function secondsLeft(
  { unusedClient, usedClient }: ClientLifetimes,
  usedAt: number | undefined,
  now: number,
): number {
  if (usedAt === undefined) return unusedClient;
  return Math.max(unusedClient, Math.ceil(usedAt + usedClient - now));
}
