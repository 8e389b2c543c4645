// The connections in the store: find one, and list those of a connector, an account or a client.
import type { Account } from '../accounts/account.ts';
import { findAccount } from '../accounts/accounts.ts';
import { findConnector, listConnectors } from '../connectors/connectors.ts';
import type { Lifetimes } from '../grants/grant-life.ts';
import { findListed, type Listed, listedGrants, type Owner } from '../grants/grant-lists.ts';
import { isVouched, type StoredGrant } from '../grants/grant-record.ts';
import { findStoredGrant } from '../grants/grants.ts';
import type { Level } from '../permission-level.ts';
import type { Via } from '../settings/entitlements.ts';
import type { Store } from '../store/store.ts';
import { type Connection, type ConnectionState, describeConnection } from './connection.ts';

export type ConnectionOptions = {
  store: Store;
  lifetimes: Lifetimes;
  /** The absolute lifetime of a grant, in seconds. */
  grantLifetime: number;
  entitledLevel: (account: Account, via: Via) => Level | undefined;
  /** Seconds since the epoch. */
  now: () => number;
};

export type Wanted = { [Kind in Owner['kind']]?: string | undefined } & {
  state?: ConnectionState | undefined;
};

/** `place` goes into `after` of the next question. */
export type Placed = { connection: Connection; place: string };

const GRANT_ID = /^[\w-]{16,64}$/;
const BATCH = 50;

export async function findConnection(
  options: ConnectionOptions,
  id: string,
): Promise<Connection | undefined> {
  const stored = GRANT_ID.test(id) ? await findStoredGrant(options.store, id) : undefined;
  return stored && reader(options)(id, stored);
}

/** The oldest first, without an owner connector by connector. Neither has those that were approved and never fetched. */
export async function* listConnections(
  options: ConnectionOptions,
  wanted: Wanted,
  after?: string,
): AsyncGenerator<Placed> {
  const read = reader(options);
  const [from, fromOwner] = (after?.split(' ') ?? []) as [string?, string?];
  const owners = await ownersOf(options.store, wanted);
  for (const owner of owners.filter(({ id }) => id >= (fromOwner ?? ''))) {
    const isFirst = fromOwner === undefined || owner.id === fromOwner;
    for await (const entry of listedIn(options, owner, isFirst ? from : undefined)) {
      const connection = await read(entry.id, entry.stored);
      const place = isOfAll(wanted) ? `${entry.place} ${owner.id}` : entry.place;
      if (fits(connection, wanted)) yield { connection, place };
    }
  }
}

async function* listedIn(
  { store, lifetimes, grantLifetime: lifetime, now }: ConnectionOptions,
  owner: Owner,
  after = '',
): AsyncGenerator<Listed & { stored: StoredGrant }> {
  const listed = await listedGrants(store, owner, { lifetime, now: now() });
  const rest = listed.filter(({ place }) => place > after);
  while (rest.length > 0) {
    const batch = rest.splice(0, BATCH);
    const found = await Promise.all(
      batch.map((entry) => findListed(store, owner, entry, { lifetimes, now: now() })),
    );
    for (const [index, entry] of batch.entries()) {
      const stored = found[index];
      if (stored) yield { ...entry, stored };
    }
  }
}

/** The owner with the fewest grants, if any is given. */
async function ownersOf(store: Store, { account, client, connector }: Wanted): Promise<Owner[]> {
  if (account !== undefined) return [{ kind: 'account', id: account }];
  if (client !== undefined) return [{ kind: 'client', id: client }];
  if (connector !== undefined) return [{ kind: 'connector', id: connector }];
  const ids = (await listConnectors(store)).map(({ id }) => id).sort();
  return ids.map((id) => ({ kind: 'connector', id }));
}

function isOfAll({ account, client, connector }: Wanted): boolean {
  return (account ?? client ?? connector) === undefined;
}

function fits(connection: Connection, { account, client, connector, state }: Wanted): boolean {
  return (
    (account === undefined || connection.account.id === account) &&
    (client === undefined || connection.client.id === client) &&
    (connector === undefined || connection.connector.id === connector) &&
    (state === undefined || connection.state === state)
  );
}

/** Connectors and accounts are read once, however many connections they have. */
function reader({ store, lifetimes, entitledLevel, now }: ConnectionOptions) {
  const connectorOf = once((id: string) => findConnector(store, id));
  const accountOf = once((id: string) => findAccount(store, id));
  return async (id: string, stored: StoredGrant): Promise<Connection> => {
    const accountId = 'ended' in stored ? stored.accountId : stored.grant.accountId;
    const [connector, account] = await Promise.all([
      connectorOf(stored.connector),
      accountOf(accountId),
    ]);
    const via = isVouched(stored) ? 'id-jag' : 'sign-in';
    const entitled = account && entitledLevel(account, via);
    return describeConnection(id, stored, { connector, account, entitled, lifetimes, now: now() });
  };
}

function once<T>(load: (id: string) => Promise<T>): (id: string) => Promise<T> {
  const known = new Map<string, Promise<T>>();
  return (id) => {
    const loading = known.get(id) ?? load(id);
    known.set(id, loading);
    return loading;
  };
}
