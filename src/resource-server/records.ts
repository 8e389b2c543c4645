// What a call is judged by: connectors, grants, accounts and minted tokens, as they were a moment ago, and dropped at once on notice.
import type { Account } from '../accounts/account.ts';
import { ACCOUNTS_CHANNEL, findAccount } from '../accounts/accounts.ts';
import type { Connector } from '../connectors/connector.ts';
import { CONNECTORS_CHANNEL, findConnector } from '../connectors/connectors.ts';
import type { GrantRecord } from '../grants/grant-record.ts';
import { findGrant, GRANTS_CHANNEL } from '../grants/grants.ts';
import {
  findMintedToken,
  MINTED_TOKENS_CHANNEL,
  type MintedToken,
} from '../minted-tokens/minted-tokens.ts';
import { cachedReader } from '../store/cached-reader.ts';
import type { Store } from '../store/store.ts';

/** Each rejects with StoreUnavailable when the store is away and nothing was read lately. */
export type Records = {
  readConnector: (id: string) => Promise<Connector | undefined>;
  readGrant: (id: string) => Promise<GrantRecord | undefined>;
  readAccount: (id: string) => Promise<Account | undefined>;
  readMintedToken: (id: string) => Promise<MintedToken | undefined>;
  /** The listener is told the id of whatever changed, when it is read afresh. */
  onChange: (listener: (id: string) => void) => void;
};

/** Seconds. A revocation takes effect within `freshFor` when its notice is lost, and within `staleIfErrorFor` when the store is away. */
const FRESHNESS = { freshFor: 9, staleIfErrorFor: 45 };

export async function openRecords(store: Store, now: () => number): Promise<Records> {
  const freshness = { ...FRESHNESS, now };
  const connectors = cachedReader((id) => findConnector(store, id), freshness);
  const grants = cachedReader(async (id) => (await findGrant(store, id))?.value, freshness);
  const accounts = cachedReader((id) => findAccount(store, id), freshness);
  const mintedTokens = cachedReader((id) => findMintedToken(store, id), freshness);
  const listeners: ((id: string) => void)[] = [];
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
    readConnector: connectors.read,
    readGrant: grants.read,
    readAccount: accounts.read,
    readMintedToken: mintedTokens.read,
    onChange: (listener) => listeners.push(listener),
  };
}
