import type { Account } from '../people/account.ts';
import { findAccount, findAccounts } from '../people/accounts.ts';
import { needsSignIn, recheckIntervalOf } from '../people/recheck.ts';
import { accessThrough, type AccessSettings } from '../people/entitlement.ts';
import { type AuditServices, recordAudit } from '../audit/audit.ts';
import { recordChange } from '../audit/recorded-change.ts';
import { type Connector, CONNECTOR_ID } from '../links/connector.ts';
import {
  connectorPage,
  findConnector,
  findConnectors,
  releaseReservedUse,
  commitReservedUse,
} from '../links/connectors.ts';
import { grantLifetimes, wasExchanged } from './grant-lifetime.ts';
import {
  countGrants,
  findListed,
  type GrantRange,
  type ListedGrant,
  listedGrants,
  type Owner,
  shortLists,
} from './grant-lists.ts';
import { isMachineSubject } from './machine-subject.ts';
import {
  type Tombstone,
  grantedLevel,
  type GrantLimit,
  type GrantRecord,
  narrowed,
  type Raise,
  type StoredGrant,
  viaOf,
} from './grant-record.ts';
import {
  announceGrant,
  denyGrant,
  endGrant,
  findGrant,
  findStoredGrant,
  narrowGrant,
  raiseGrant,
} from './grants.ts';
import type { Reason } from './reasons.ts';
import type { Level } from '../permission-levels.ts';
import type { Settings } from '../settings/settings.ts';
import { isWorkloadSubject, ruleInForce } from '../settings/workloads.ts';
import type { Store } from '../store/store.ts';
import { type Connection, type ConnectionState, describeConnection } from './connection.ts';

export type ConnectionSettings = AccessSettings &
  Pick<Settings, 'lifetimes' | 'levels' | 'upstreams'>;
export type Reading = Pick<AuditServices, 'store' | 'now'>;

/** Conditions that a listed connection meets. An absent one is met by all. */
export type ConnectionFilter = { [Kind in Owner['kind']]?: string | undefined } & {
  state?: ConnectionState | undefined;
};

/** Listing after `cursor` continues behind this connection. */
export type ListedConnection = { item: Connection; cursor: string };

const GRANT_ID = /^[\w-]{16,64}$/;
const BATCH_GRANTS = 50;
const BATCH_OWNERS = 20;

export async function findConnection(
  settings: ConnectionSettings,
  services: Reading,
  id: string,
): Promise<Connection | undefined> {
  const stored = GRANT_ID.test(id) ? await findStoredGrant(services.store, id) : undefined;
  return stored && connectionReader(settings, services)(id, stored);
}

/** Without an owner, the connections of these `people` are listed first, and no others if `isEnough` then says so. */
type ConnectionRange = {
  after?: string | undefined;
  newestFirst?: boolean;
  people?: readonly string[];
  isEnough?: () => boolean;
};

/** Yields connections oldest first, unless `newestFirst`; without an owner, by connector first. Grants whose tokens were never fetched in time are not included. */
export async function* listConnections(
  settings: ConnectionSettings,
  services: Reading,
  filter: ConnectionFilter,
  { after, newestFirst, people = [], isEnough }: ConnectionRange = {},
): AsyncGenerator<ListedConnection> {
  const accounts = new Map<string, Account>();
  const connectors = new Map<string, Connector | undefined>();
  const read = connectionReader(settings, services, {
    readConnector: async (id) => connectors.get(id),
    readAccount: async (id) => accounts.get(id),
  });
  const first = hasOwner(filter) ? [] : people.toSorted();
  const range = { after, newestFirst, people: first, isEnough };
  const batches = batchesOf(settings, services, filter, range);
  for await (const batch of batches) {
    await Promise.all([
      readAccounts(services.store, batch, accounts),
      readConnectors(services.store, batch, connectors),
    ]);
    for (const { id, stored, place, owner } of batch) {
      const connection = await read(id, stored);
      const cursor = hasOwner(filter) ? place : `${place} ${owner.id}`;
      const wasListed = owner.kind !== 'account' && first.includes(connection.account.id);
      if (!wasListed && matches(connection, filter)) yield { item: connection, cursor };
    }
  }
}

type StoredEntry = ListedGrant & { stored: StoredGrant };

/** Adds the accounts that are not in `accounts` yet. */
async function readAccounts(
  store: Store,
  batch: readonly StoredEntry[],
  accounts: Map<string, Account>,
): Promise<void> {
  const unread = batch.map(({ stored }) => subjectOf(stored)).filter((id) => !accounts.has(id));
  for (const [id, account] of await findAccounts(store, [...new Set(unread)]))
    accounts.set(id, account);
}

/** Adds the connectors that are not in `connectors` yet. */
async function readConnectors(
  store: Store,
  batch: readonly StoredEntry[],
  connectors: Map<string, Connector | undefined>,
): Promise<void> {
  const unread = batch
    .map(({ stored }) => stored.connector)
    .filter((id) => CONNECTOR_ID.test(id) && !connectors.has(id));
  const ids = [...new Set(unread)];
  const found = await findConnectors(store, ids);
  for (const [index, id] of ids.entries()) connectors.set(id, found[index]);
}

/** Yields the grants of one owner after the other. Without an owner in the filter, those of several are read at once. */
async function* batchesOf(
  settings: ConnectionSettings,
  services: Reading,
  filter: ConnectionFilter,
  { after, newestFirst, people = [], isEnough = () => false }: ConnectionRange,
): AsyncGenerator<StoredEntry[]> {
  const [afterGrant, from] = (after?.split(' ') ?? []) as [string?, string?];
  const batch: Owner[] = [];
  let isBehindPeople = people.length === 0;
  for await (const owner of ownersOf(services.store, filter, { people, from })) {
    const isFirst = from === undefined || owner.id === from;
    const start = isFirst ? afterGrant : undefined;
    if (owner.kind === 'connector' && !isBehindPeople) {
      yield* grantsOfSeveral(settings, services, batch.splice(0));
      if (isEnough()) return;
      isBehindPeople = true;
    }
    if (hasOwner(filter) || start !== undefined || newestFirst)
      yield* grantsOf(settings, services, owner, { after: start, newestFirst });
    else batch.push(owner);
    if (batch.length === BATCH_OWNERS) yield* grantsOfSeveral(settings, services, batch.splice(0));
  }
  yield* grantsOfSeveral(settings, services, batch);
}

/** Ends a connection in every process at once and records it. `by` is the administrator in the console. Resolves to true for the one call that ended it. */
export async function endConnection(
  services: AuditServices,
  { id, state }: Pick<Connection, 'id' | 'state'>,
  reason: Reason,
  by?: string,
): Promise<boolean> {
  const { store, now } = services;
  const live = state === 'ended' ? undefined : await findGrant(store, id);
  if (!live) return false;
  const details = { reason, by };
  const ended = await recordChange(services, endItem(id, live.value, details), {
    async make() {
      const record = await endGrant(store, id, reason, now());
      if (record) await finishEnd(store, id, record);
      return record;
    },
    itemOf: (record) => record && endItem(id, record, details),
  });
  return ended !== undefined;
}

/** Ends a connection as `endConnection` does. If it does not exist yet, prevents for `ttl` seconds that it is created. Resolves to true for the first denial. */
export async function denyConnection(
  services: AuditServices,
  id: string,
  details: Pick<Tombstone, 'connector' | 'client' | 'clientId' | 'accountId'>,
  ttl: number,
): Promise<boolean> {
  const now = Math.floor(services.now());
  const tombstone: Tombstone = {
    version: 1,
    ended: 'denied',
    endedAt: now,
    createdAt: now,
    ...details,
  };
  const { store } = services;
  const item = (record: GrantRecord) => endItem(id, record, { reason: tombstone.ended });
  const make = async () => {
    const denied = await denyGrant(store, id, tombstone, ttl);
    if (denied.ended) await finishEnd(store, id, denied.ended);
    return denied;
  };
  const live = await findGrant(store, id);
  const { isNew, ended } = live
    ? await recordChange(services, item(live.value), {
        make,
        itemOf: (denied) => denied.ended && item(denied.ended),
      })
    : await make();
  // It was created meanwhile.
  if (!live && ended) await recordAudit(services, item(ended));
  return isNew || ended !== undefined;
}

function endItem(
  id: string,
  record: GrantRecord,
  details: { reason: Reason; by?: string | undefined },
) {
  return {
    event: 'grant_ended',
    ...auditMembers(id, record),
    outcome: 'grant_ended',
    ...details,
  };
}

async function finishEnd(store: Store, id: string, ended: GrantRecord): Promise<void> {
  await Promise.all([announceGrant(store, id), settleUse(store, id, ended)]);
}

/** The exchange counts as a use even if the use has not been recorded yet. A use that is only reserved is released. */
export async function settleUse(store: Store, id: string, ended: GrantRecord): Promise<void> {
  const settle = wasExchanged(ended) ? commitReservedUse : releaseReservedUse;
  await settle(store, ended.connector, id);
}

/** Ends the active connections that match. Resolves to their number. */
export async function endConnections(
  settings: ConnectionSettings,
  services: AuditServices,
  filter: ConnectionFilter,
  reason: Reason,
  by?: string,
): Promise<number> {
  const connections = await Array.fromAsync(listConnections(settings, services, filter));
  let count = 0;
  while (connections.length > 0) {
    const batch = connections.splice(0, BATCH_GRANTS);
    const ended = await Promise.all(
      batch.map(({ item: connection }) => endConnection(services, connection, reason, by)),
    );
    count += ended.filter(Boolean).length;
  }
  return count;
}

/**
 * Records the end of the connections that an account refuses since the identity provider ended the person, in each of them and in the audit
 * log.
 */
export async function endConnectionsEndedByProvider(
  settings: ConnectionSettings,
  services: AuditServices,
  account: string,
): Promise<void> {
  const reason = 'identity_provider_ended';
  for await (const { item: connection } of listConnections(settings, services, { account }))
    if (connection.reason === reason)
      await endConnection(services, { id: connection.id, state: 'active' }, reason);
}

/** Narrows a connection and records a lower level. Resolves to its level, which is never higher than before, or to undefined if it ended. */
export async function narrowConnection(
  settings: Pick<Settings, 'lifetimes' | 'levels'>,
  services: AuditServices,
  id: string,
  limit: GrantLimit,
): Promise<Level | undefined> {
  const { store, now } = services;
  const lifetimes = grantLifetimes(settings.lifetimes);
  const live = await findGrant(store, id);
  if (!live) return undefined;
  const wanted = narrowed(settings.levels, live.value, limit);
  // Nothing is begun, which might be recorded as interrupted.
  if (!wanted) return grantedLevel(live.value);
  const begun = levelItem('level_lowered', id, live.value, grantedLevel(wanted));
  const narrowing = await recordChange(services, begun, {
    make: () => narrowGrant(store, settings.levels, id, limit, { lifetimes, now: now() }),
    itemOf: (made) => {
      if (!made?.isNarrower) return undefined;
      const level = grantedLevel(made.after);
      if (level === grantedLevel(made.before)) return undefined;
      return levelItem('level_lowered', id, made.before, level);
    },
  });
  return narrowing && grantedLevel(narrowing.after);
}

/** Raises the level of a connection and records it. `changed`: its level is not what the person saw. */
export async function raiseConnection(
  settings: Pick<Settings, 'lifetimes' | 'levels'>,
  services: AuditServices,
  id: string,
  raise: Raise,
): Promise<'raised' | 'changed' | 'ended'> {
  const { store, now } = services;
  const lifetimes = grantLifetimes(settings.lifetimes);
  const live = await findGrant(store, id);
  if (!live) return 'ended';
  const item = levelItem('level_raised', id, live.value, raise.to);
  const result = await recordChange(services, item, {
    make: () => raiseGrant(store, settings.levels, id, raise, { lifetimes, now: now() }),
    itemOf: (made) => (made?.isRaised ? item : undefined),
  });
  if (!result) return 'ended';
  // Another copy of the same form may have raised it.
  return grantedLevel(result.after) === raise.to ? 'raised' : 'changed';
}

function levelItem(event: string, id: string, record: GrantRecord, level: Level | undefined) {
  return { event, ...auditMembers(id, record), arguments: { level } };
}

export function auditMembers(grantId: string, { grant, connector }: GrantRecord) {
  return { account: grant.accountId, clientId: grant.clientId, connector, grantId };
}

/** Yields the grants of a connector, or of all. */
export async function* storedGrants(
  settings: ConnectionSettings,
  services: Reading,
  filter: Pick<ConnectionFilter, 'connector'>,
): AsyncGenerator<StoredEntry> {
  for await (const batch of batchesOf(settings, services, filter, {})) yield* batch;
}

/** Whether more than `count` grants are listed. Some may have expired meanwhile. */
export async function hasMoreGrants(
  { lifetimes: { refreshTokenAbsolute: lifetime } }: ConnectionSettings,
  { store, now }: Reading,
  filter: ConnectionFilter,
  count: number,
): Promise<boolean> {
  const limit = count + 1;
  let left = count;
  let owners: Owner[] = [];
  for await (const owner of ownersOf(store, filter, { people: [], from: undefined })) {
    owners.push(owner);
    if (owners.length < BATCH_OWNERS) continue;
    left -= await countGrants(store, owners, { lifetime, now: now(), limit });
    if (left < 0) return true;
    owners = [];
  }
  return left < (await countGrants(store, owners, { lifetime, now: now(), limit }));
}

async function* grantsOf(
  settings: ConnectionSettings,
  services: Reading,
  owner: Owner,
  range: Pick<GrantRange, 'after' | 'newestFirst'>,
): AsyncGenerator<StoredEntry[]> {
  const { store, now } = services;
  const lifetime = settings.lifetimes.refreshTokenAbsolute;
  for await (const batch of listedGrants(store, owner, { lifetime, now: now(), ...range }))
    yield withStored(settings, services, batch);
}

/** As `grantsOf` for one owner after the other, oldest first. Most have few grants, which are read at once. */
async function* grantsOfSeveral(
  settings: ConnectionSettings,
  services: Reading,
  owners: readonly Owner[],
): AsyncGenerator<StoredEntry[]> {
  if (owners.length === 0) return;
  const { store, now } = services;
  const lifetime = settings.lifetimes.refreshTokenAbsolute;
  const lists = await shortLists(store, owners, { lifetime, now: now() });
  let entries: ListedGrant[] = [];
  for (const [index, owner] of owners.entries()) {
    const list = lists[index];
    entries.push(...(list ?? []));
    // The caller may stop here.
    if (!list || entries.length >= BATCH_GRANTS) {
      yield withStored(settings, services, entries);
      entries = [];
    }
    if (!list) yield* grantsOf(settings, services, owner, {});
  }
  yield withStored(settings, services, entries);
}

/** Leaves out entries whose grant is gone. */
async function withStored(
  settings: ConnectionSettings,
  { store, now }: Reading,
  entries: readonly ListedGrant[],
): Promise<StoredEntry[]> {
  const lifetimes = grantLifetimes(settings.lifetimes);
  const found = await findListed(store, entries, { lifetimes, now: now() });
  return entries.flatMap((entry, index) => {
    const stored = found[index];
    return stored ? [{ ...entry, stored }] : [];
  });
}

/**
 * Yields the owner that usually has the fewest grants. If the filter names no owner, yields `people`, whose ids are sorted, then all connectors,
 * beginning with the owner `from`.
 */
async function* ownersOf(
  store: Store,
  { account, client, connector }: ConnectionFilter,
  { people, from }: { people: readonly string[]; from: string | undefined },
): AsyncGenerator<Owner> {
  if (account !== undefined) return yield { kind: 'account', id: account };
  if (client !== undefined) return yield { kind: 'client', id: client };
  if (connector !== undefined) return yield { kind: 'connector', id: connector };
  const isConnector = from !== undefined && CONNECTOR_ID.test(from);
  if (!isConnector) for (const id of people) if (id >= (from ?? '')) yield { kind: 'account', id };
  if (isConnector) yield { kind: 'connector', id: from };
  for (let last = isConnector ? from : undefined; ;) {
    const ids = await connectorPage(store, { after: last, limit: BATCH_OWNERS });
    for (const id of ids) yield { kind: 'connector', id };
    if (ids.length < BATCH_OWNERS) return;
    last = ids.at(-1);
  }
}

function hasOwner({ account, client, connector }: ConnectionFilter): boolean {
  return (account ?? client ?? connector) !== undefined;
}

function matches(
  connection: Connection,
  { account, client, connector, state }: ConnectionFilter,
): boolean {
  return (
    (account === undefined || connection.account.id === account) &&
    (client === undefined || connection.client.id === client) &&
    (connector === undefined || connection.connector.id === connector) &&
    (state === undefined || connection.state === state)
  );
}

/** Returns a function that reads each connector and account once. */
export function connectionReader(
  settings: ConnectionSettings,
  { store, now }: Reading,
  {
    readConnector = (id) => findConnector(store, id),
    readAccount = (id) => findAccount(store, id),
  }: {
    readConnector?: (id: string) => Promise<Connector | undefined>;
    readAccount?: (id: string) => Promise<Account | undefined>;
  } = {},
) {
  const lifetimes = grantLifetimes(settings.lifetimes);
  const connectorOf = memoize(readConnector);
  const accountOf = memoize(readAccount);
  return async (id: string, stored: StoredGrant): Promise<Connection> => {
    const accountId = subjectOf(stored);
    const [connector, account] = await Promise.all([
      connectorOf(stored.connector),
      isMachineSubject(accountId) ? undefined : accountOf(accountId),
    ]);
    const via = viaOf(stored);
    const access = account && accessThrough(settings, connector ?? {}, account, via);
    const interval = account && via === 'sign-in' && recheckIntervalOf(settings, account);
    const mustSignIn = account && interval && needsSignIn(account, interval, now());
    const at = { connector: connector ?? { id: stored.connector }, now: now() };
    const workload = workloadAccess(settings, accountId, at);
    return describeConnection(id, stored, {
      connector,
      account,
      ...(access && !access.refusal ? { entitled: access.level, place: access.place } : {}),
      refusal: mustSignIn ? 'sign_in_again' : access?.refusal,
      ...workload,
      lifetimes,
      settings,
      now: now(),
    });
  };
}

/** The id of the person, or the subject of the machine or workload. */
export function subjectOf(stored: StoredGrant): string {
  return 'ended' in stored ? stored.accountId : stored.grant.accountId;
}

/** What the rule of a workload gives it. Undefined for others. */
function workloadAccess(
  { authorization }: ConnectionSettings,
  accountId: string,
  at: { connector: { id: string; name?: string }; now: number },
) {
  if (!isWorkloadSubject(accountId)) return undefined;
  const rule = ruleInForce(authorization.trustedIssuers, accountId, at);
  return rule ? { entitled: rule.level } : { refusal: 'workload_gone' as const };
}

/** Loads each once. */
export function memoize<Id, T>(load: (id: Id) => Promise<T>): (id: Id) => Promise<T> {
  const cached = new Map<Id, Promise<T>>();
  return (id) => {
    const loading = cached.get(id) ?? load(id);
    cached.set(id, loading);
    return loading;
  };
}
