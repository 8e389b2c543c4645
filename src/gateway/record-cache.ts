// Caches the records that authenticate requests. A published change drops an entry at once.
import type { Account } from '../people/account.ts';
import { ACCOUNTS_CHANNEL, findAccount } from '../people/accounts.ts';
import type { Connector } from '../links/connector.ts';
import { CONNECTORS_CHANNEL, findConnector } from '../links/connectors.ts';
import type { GrantRecord } from '../connections/grant-record.ts';
import { findGrant, GRANTS_CHANNEL } from '../connections/grants.ts';
import {
  findMintedToken,
  MINTED_TOKENS_CHANNEL,
  type MintedToken,
} from '../links/minted-tokens.ts';
import { cachedReader } from '../store/cached-reader.ts';
import type { Store } from '../store/store.ts';

/** Returns a fresh record at once, because waiting takes longer than finding it. Rejects with StoreUnavailable if the store is unavailable and no recent record is cached. */
type ReadRecord<T> = (id: string) => T | Promise<T | undefined>;

export type RecordCache = {
  readConnector: ReadRecord<Connector>;
  readGrant: ReadRecord<GrantRecord>;
  readAccount: ReadRecord<Account>;
  readMintedToken: ReadRecord<MintedToken>;
  /** Calls the listener with the id of a changed record, after the cached entry is dropped, until the returned function is called. */
  onChange: (listener: (id: string) => void) => () => void;
};

/** Seconds. A revocation takes effect within `freshFor` if its message is lost, and within `staleIfErrorFor` if the store is unavailable. */
const FRESHNESS = { freshFor: 9, staleIfErrorFor: 45 };

export async function openRecordCache(store: Store, now: () => number): Promise<RecordCache> {
  const freshness = { ...FRESHNESS, now };
  const connectors = cachedReader((id) => findConnector(store, id), freshness);
  const grants = cachedReader(async (id) => (await findGrant(store, id))?.value, freshness);
  const accounts = cachedReader((id) => findAccount(store, id), freshness);
  const mintedTokens = cachedReader((id) => findMintedToken(store, id), freshness);
  const listeners = new Set<(id: string) => void>();
  const dropFrom = ({ drop }: { drop: (id: string) => void }) => {
    return (id: string) => {
      drop(id);
      for (const listener of listeners) listener(id);
    };
  };
  await store.subscribe(CONNECTORS_CHANNEL, dropFrom(connectors));
  await store.subscribe(GRANTS_CHANNEL, dropFrom(grants));
  await store.subscribe(ACCOUNTS_CHANNEL, dropFrom(accounts));
  await store.subscribe(MINTED_TOKENS_CHANNEL, dropFrom(mintedTokens));
  return {
    readConnector: (id) => connectors.cached(id) ?? connectors.read(id),
    readGrant: (id) => grants.cached(id) ?? grants.read(id),
    readAccount: (id) => accounts.cached(id) ?? accounts.read(id),
    readMintedToken: (id) => mintedTokens.cached(id) ?? mintedTokens.read(id),
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
