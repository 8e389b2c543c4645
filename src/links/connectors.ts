// Connectors in the store: create, find, list, revoke, delete, acquire a use, announce changes.
import type { Level } from '../permission-levels.ts';
import type { AudienceRule } from '../settings/entitlements.ts';
import { KEEP, type Found, type MemberRange, type Store, StoreFull } from '../store/store.ts';
import {
  type Connector,
  CONNECTOR_ID,
  createConnectorId,
  grantsToCheck,
  commitUse,
  releaseUse,
  type Reservation,
  reservedGrants,
  reserveUse,
  recordedState,
  commitExchangedUses,
} from './connector.ts';

/** Carries the id of a connector that changed. */
export const CONNECTORS_CHANNEL = 'connectors';
const ALL = 'connectors:all';
const connectorKey = (id: string) => `connector:${id}`;

/** `expiresAt` in seconds since the epoch. */
export type NewConnector = {
  key?: string;
  name: string;
  level: Level;
  suggestedLevel?: Level;
  upstream?: string;
  audience?: AudienceRule[];
  tools?: readonly string[];
  maxUses?: number;
  calls?: string;
  expiresAt?: number;
  paused?: true;
};

export function newConnector(wanted: NewConnector, now: number): Connector {
  return { id: createConnectorId(), ...wanted, createdAt: now, used: 0, uses: [] };
}

export async function addConnector(store: Store, connector: Connector): Promise<Connector> {
  await store.add(connectorKey(connector.id), connector, Infinity);
  await store.addMember(ALL, connector.id, Infinity);
  return connector;
}

export function createConnector(
  store: Store,
  wanted: NewConnector,
  now: number,
): Promise<Connector> {
  return addConnector(store, newConnector(wanted, now));
}

export async function findConnector(store: Store, id: string): Promise<Connector | undefined> {
  return CONNECTOR_ID.test(id) ? (await store.get<Connector>(connectorKey(id)))?.value : undefined;
}

/** Finds several, in the order of the ids. */
export function findConnectors(
  store: Store,
  ids: readonly string[],
): Promise<(Connector | undefined)[]> {
  return store.getMany<Connector>(ids.map(connectorKey));
}

/** Finds by id, else by name: the oldest connector of that name for which `isActive` is true, else the oldest one. */
export async function findConnectorNamed(
  store: Store,
  idOrName: string,
  isActive: (connector: Connector) => boolean,
): Promise<Connector | undefined> {
  const byId = await findConnector(store, idOrName);
  if (byId) return byId;
  const named = (await listConnectors(store)).filter(({ name }) => name === idOrName);
  return named.find(isActive) ?? named[0];
}

/** The ids of connectors, in an order that does not change. */
export async function connectorPage(store: Store, range: MemberRange): Promise<string[]> {
  return store.page(ALL, range);
}

/** Whether there are more than `count` connectors. */
export async function hasMoreConnectors(store: Store, count: number): Promise<boolean> {
  const [size = 0] = await store.sizes([ALL], count + 1);
  return size > count;
}

/** The connectors of each store when they were last listed. They are listed often, and few change in between. */
const lastListed = new WeakMap<Store, Map<string, Found<Connector>>>();

/** Oldest first. */
export async function listConnectors(store: Store): Promise<Connector[]> {
  const ids = (await store.members(ALL)).filter((id) => CONNECTOR_ID.test(id));
  const seen = new Map(lastListed.get(store));
  const found = await store.getMany(ids.map(connectorKey), seen);
  lastListed.set(store, seen);
  return found
    .filter((connector) => connector !== undefined)
    .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
}

/** `first`: true for the one call that revoked it. */
export type Revocation = { connector: Connector; first: boolean };

/** Stops all access through the link, also after a failover. The record stays, so that the link can report why it no longer works. */
export async function revokeConnector(
  store: Store,
  id: string,
  now: number,
): Promise<Revocation | undefined> {
  const revocation = await markRevoked(store, id, now);
  if (revocation) await announce(store, id);
  return revocation;
}

/** What an administrator changed: the same record twice if nothing. */
export type ConnectorUpdate = { before: Connector; after: Connector };

/** Undefined if there is no such connector. `next` is pure; what it throws is thrown, and nothing is changed. */
export async function updateConnector(
  store: Store,
  id: string,
  next: (connector: Connector) => Connector,
): Promise<ConnectorUpdate | undefined> {
  if (!CONNECTOR_ID.test(id)) return undefined;
  let update: ConnectorUpdate | undefined;
  const stored = await change(store, id, (before) => {
    const after = next(before);
    update = { before, after };
    return after;
  });
  // Deleted while it was written.
  if (!stored || !update) return undefined;
  if (update.after !== update.before) await announce(store, id);
  return update;
}

async function announce(store: Store, id: string): Promise<void> {
  await Promise.all([
    // Listeners also refresh every few seconds, so a lost message only delays them.
    store.publish(CONNECTORS_CHANNEL, id).catch(() => undefined),
    store.replicated(connectorKey(id)),
  ]);
}

/** Deletes a connector. Exactly one of concurrent callers gets the deleted record. */
export async function deleteConnector(store: Store, id: string): Promise<Connector | undefined> {
  if (!CONNECTOR_ID.test(id)) return undefined;
  const connector = await store.take<Connector>(connectorKey(id));
  if (connector) await announce(store, id);
  // Another caller may have stopped before this step.
  await store.removeMember(ALL, id);
  return connector;
}

async function markRevoked(store: Store, id: string, now: number): Promise<Revocation | undefined> {
  let first = false;
  try {
    const after = await change(store, id, (connector) => {
      first = connector.revokedAt === undefined;
      return first ? { ...connector, revokedAt: now } : undefined;
    });
    return after && { connector: after.value, first };
  } catch (error) {
    if (!(error instanceof StoreFull)) throw error;
    // A full store still deletes. An unknown link grants no access either.
    const taken = await store.take<Connector>(connectorKey(id));
    return taken && { connector: { ...taken, revokedAt: now }, first };
  }
}

/** Whether the grant's code was exchanged and the grant has not ended. */
export type IsGrantActive = (grantId: string) => Promise<boolean>;

/** Reserves a use for a grant that is about to be created. False if no use is left or the connector has ended. Exact under any concurrency. */
export async function acquireUse(
  store: Store,
  id: string,
  reservation: Reservation,
  { now, isActive }: { now: number; isActive: IsGrantActive },
): Promise<boolean> {
  const known = new Map<string, boolean>();
  for (;;) {
    const outcome = await tryReserving(store, id, reservation, known, now);
    if (outcome !== 'retry') return outcome === 'acquired';
    const connector = await findConnector(store, id);
    if (!connector) return false;
    await checkGrants(grantsToCheck(connector, reservation.holder, now), known, isActive);
  }
}

/** Whether `acquireUse` would succeed now. Writes nothing. */
export async function hasUseLeft(
  connector: Connector,
  holder: string,
  { now, isActive }: { now: number; isActive: IsGrantActive },
): Promise<boolean> {
  const known = new Map<string, boolean>();
  await checkGrants(grantsToCheck(connector, holder, now), known, isActive);
  return (
    reserveUse(connector, { holder, grantId: '', reservedUntil: now }, activeGrants(known), now) !==
    undefined
  );
}

async function checkGrants(
  grantIds: string[],
  known: Map<string, boolean>,
  isActive: IsGrantActive,
): Promise<void> {
  for (const grantId of grantIds) {
    if (!known.has(grantId)) known.set(grantId, await isActive(grantId));
  }
}

function activeGrants(known: ReadonlyMap<string, boolean>): Set<string> {
  return new Set([...known].flatMap(([grantId, active]) => (active ? [grantId] : [])));
}

/** `retry`: the outcome depends on grants that are not in `known`. */
async function tryReserving(
  store: Store,
  id: string,
  reservation: Reservation,
  known: ReadonlyMap<string, boolean>,
  now: number,
): Promise<'acquired' | 'used up' | 'retry'> {
  let outcome: 'acquired' | 'used up' | 'retry' = 'used up';
  await change(store, id, (connector) => {
    outcome = 'retry';
    if (grantsToCheck(connector, reservation.holder, now).some((grantId) => !known.has(grantId)))
      return undefined;
    const state = recordedState(connector, now);
    const hasEnded = state === 'revoked' || state === 'expired';
    const after = !hasEnded
      ? reserveUse(connector, reservation, activeGrants(known), now)
      : undefined;
    outcome = after ? 'acquired' : 'used up';
    return after;
  });
  return outcome;
}

export type RedeemedUse = { holder: string; grantId: string };

/** Commits the uses of grants whose codes were exchanged. */
export async function commitUses(store: Store, id: string, uses: RedeemedUse[]): Promise<void> {
  await change(store, id, (connector) =>
    uses.reduce((after, { holder, grantId }) => commitUse(after, holder, grantId), connector),
  );
}

/** Call when an exchanged grant ends: its tombstone does not show the exchange, so a use that is still reserved is committed now. */
export async function commitReservedUse(store: Store, id: string, grantId: string): Promise<void> {
  await change(store, id, (connector) => commitExchangedUses(connector, new Set([grantId])));
}

/** Call when a grant ends before its code was exchanged. */
export async function releaseReservedUse(store: Store, id: string, grantId: string): Promise<void> {
  await change(store, id, (connector) => releaseUse(connector, grantId));
}

/** Returns the connector with recent exchanges counted. Writes nothing. */
export async function withCommittedUses(
  connector: Connector,
  isActive: IsGrantActive,
): Promise<Connector> {
  const known = new Map<string, boolean>();
  await checkGrants(reservedGrants(connector), known, isActive);
  return commitExchangedUses(connector, activeGrants(known));
}

/** Writes the result of `next`. Writes nothing if it is undefined or there is no record. */
function change(
  store: Store,
  id: string,
  next: (connector: Connector) => Connector | undefined,
): Promise<Found<Connector> | undefined> {
  return store.update<Connector>(connectorKey(id), (current) => {
    const value = current && next(current);
    return value && value !== current ? { value, ttl: Infinity } : KEEP;
  });
}
