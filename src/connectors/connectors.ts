// The connectors in the store: create, find, list, revoke, delete, take a use, and prompt notice of changes.
import type { Level } from '../permission-level.ts';
import { KEEP, type Found, type Store, StoreFull } from '../store/store.ts';
import {
  type Connector,
  CONNECTOR_ID,
  connectorState,
  createConnectorId,
  decidingGrants,
  isUsable,
  keepUse,
  releaseUse,
  type Reservation,
  reservedGrants,
  reserveUse,
  settleUses,
} from './connector.ts';

/** Carries the id of a connector that changed. */
export const CONNECTORS_CHANNEL = 'connectors';
const ALL = 'connectors:all';
const connectorKey = (id: string) => `connector:${id}`;

/** `expiresAt` in seconds since the epoch. */
export type NewConnector = {
  name: string;
  level: Level;
  suggestedLevel?: Level;
  maxUses?: number;
  expiresAt?: number;
};

export async function createConnector(
  store: Store,
  wanted: NewConnector,
  now: number,
): Promise<Connector> {
  const connector: Connector = {
    id: createConnectorId(),
    ...wanted,
    createdAt: now,
    used: 0,
    uses: [],
  };
  await store.add(connectorKey(connector.id), connector, Infinity);
  await store.addMember(ALL, connector.id, Infinity);
  return connector;
}

export async function findConnector(store: Store, id: string): Promise<Connector | undefined> {
  return CONNECTOR_ID.test(id) ? (await store.get<Connector>(connectorKey(id)))?.value : undefined;
}

/** By id, else by name: the oldest usable one of that name. */
export async function findConnectorNamed(
  store: Store,
  idOrName: string,
  now: number,
): Promise<Connector | undefined> {
  const byId = await findConnector(store, idOrName);
  if (byId) return byId;
  const named = (await listConnectors(store)).filter(({ name }) => name === idOrName);
  return named.find((connector) => connectorState(connector, now) === 'active') ?? named[0];
}

/** Oldest first. */
export async function listConnectors(store: Store): Promise<Connector[]> {
  const ids = await store.members(ALL);
  const found = await Promise.all(ids.map((id) => findConnector(store, id)));
  return found
    .filter((connector) => connector !== undefined)
    .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
}

/** `first`: this call revoked it, and not one before or at the same time. */
export type Revocation = { connector: Connector; first: boolean };

/** Stops everything under the link, also after a failover. The record stays, so that the link says why it no longer works. */
export async function revokeConnector(
  store: Store,
  id: string,
  now: number,
): Promise<Revocation | undefined> {
  const revocation = await markRevoked(store, id, now);
  if (revocation) await announce(store, id);
  return revocation;
}

async function announce(store: Store, id: string): Promise<void> {
  await Promise.all([
    // Listeners read again every few seconds anyway, so a message that cannot be sent undoes nothing.
    store.publish(CONNECTORS_CHANNEL, id).catch(() => undefined),
    store.replicated(connectorKey(id)),
  ]);
}

/** Forgets a connector that is over; of many callers exactly one gets what it was. Ids are drawn anew every time, so this one never comes back. */
export async function deleteConnector(store: Store, id: string): Promise<Connector | undefined> {
  if (!CONNECTOR_ID.test(id)) return undefined;
  const connector = await store.take<Connector>(connectorKey(id));
  if (connector) await announce(store, id);
  // Also when another caller died before it got here.
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
    // It refuses the mark and still deletes: the link is then unknown, which stops everything under it too.
    const taken = await store.take<Connector>(connectorKey(id));
    return taken && { connector: { ...taken, revokedAt: now }, first };
  }
}

/** Whether a grant was exchanged and has not ended. */
export type Stands = (grantId: string) => Promise<boolean>;

/** Takes a use for a grant that is about to be made; false when none is left, or the connector cannot be used. Exact under any concurrency. */
export async function takeUse(
  store: Store,
  id: string,
  reservation: Reservation,
  { now, stands }: { now: number; stands: Stands },
): Promise<boolean> {
  const known = new Map<string, boolean>();
  for (;;) {
    const outcome = await tryReserving(store, id, reservation, known, now);
    if (outcome !== 'ask again') return outcome === 'taken';
    const connector = await findConnector(store, id);
    if (!connector) return false;
    await ask(decidingGrants(connector, reservation.holder, now), known, stands);
  }
}

/** True when `takeUse` would succeed now, judged without writing. */
export async function hasUseLeft(
  connector: Connector,
  holder: string,
  { now, stands }: { now: number; stands: Stands },
): Promise<boolean> {
  const known = new Map<string, boolean>();
  await ask(decidingGrants(connector, holder, now), known, stands);
  return (
    reserveUse(connector, { holder, grantId: '', reservedUntil: now }, standing(known), now) !==
    undefined
  );
}

async function ask(grantIds: string[], known: Map<string, boolean>, stands: Stands): Promise<void> {
  for (const grantId of grantIds) {
    if (!known.has(grantId)) known.set(grantId, await stands(grantId));
  }
}

function standing(known: ReadonlyMap<string, boolean>): Set<string> {
  return new Set([...known].flatMap(([grantId, stands]) => (stands ? [grantId] : [])));
}

/** `ask again`: it depends on grants we know nothing of yet. */
async function tryReserving(
  store: Store,
  id: string,
  reservation: Reservation,
  known: ReadonlyMap<string, boolean>,
  now: number,
): Promise<'taken' | 'none left' | 'ask again'> {
  let outcome: 'taken' | 'none left' | 'ask again' = 'none left';
  await change(store, id, (connector) => {
    outcome = 'ask again';
    if (decidingGrants(connector, reservation.holder, now).some((grantId) => !known.has(grantId)))
      return undefined;
    const after = isUsable(connector, now)
      ? reserveUse(connector, reservation, standing(known), now)
      : undefined;
    outcome = after ? 'taken' : 'none left';
    return after;
  });
  return outcome;
}

export type TakenUse = { holder: string; grantId: string };

/** The codes of these grants were exchanged: their uses count from now on. */
export async function keepTakenUses(store: Store, id: string, uses: TakenUse[]): Promise<void> {
  await change(store, id, (connector) =>
    uses.reduce((kept, { holder, grantId }) => keepUse(kept, holder, grantId), connector),
  );
}

/** The grant was exchanged and ends: nothing will say so a minute from now, so its use is kept if it is still only reserved. */
export async function settleUseOf(store: Store, id: string, grantId: string): Promise<void> {
  await change(store, id, (connector) => settleUses(connector, new Set([grantId])));
}

/** The grant ends before its code was exchanged. */
export async function releaseUseOf(store: Store, id: string, grantId: string): Promise<void> {
  await change(store, id, (connector) => releaseUse(connector, grantId));
}

/** The connector as it is when what was exchanged a moment ago counts, judged without writing. */
export async function withSettledUses(connector: Connector, stands: Stands): Promise<Connector> {
  const known = new Map<string, boolean>();
  await ask(reservedGrants(connector), known, stands);
  return settleUses(connector, standing(known));
}

/** Writes what `next` returns; nothing when it returns undefined or the record is not there. */
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
