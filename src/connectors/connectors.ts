// The connectors in the store: create, find, list, revoke, take a use, and prompt notice of changes.
import type { Level } from '../permission-level.ts';
import { KEEP, type Found, type Store } from '../store/store.ts';
import {
  type Connector,
  CONNECTOR_ID,
  connectorState,
  createConnectorId,
  keepUse,
  liveUses,
  reserveUse,
} from './connector.ts';

/** Carries the id of a connector that changed. */
export const CONNECTORS_CHANNEL = 'connectors';
const ALL = 'connectors:all';
const connectorKey = (id: string) => `connector:${id}`;

/** `expiresAt` in seconds since the epoch. */
export type NewConnector = { name: string; level: Level; maxUses?: number; expiresAt?: number };

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
  let first = false;
  const after = await change(store, id, (connector) => {
    first = connector.revokedAt === undefined;
    return first ? { ...connector, revokedAt: now } : undefined;
  });
  if (!after) return undefined;
  // Listeners read again every few seconds anyway, so a message that cannot be sent undoes nothing.
  await store.publish(CONNECTORS_CHANNEL, id).catch(() => undefined);
  await store.replicated(connectorKey(id));
  return { connector: after.value, first };
}

export type Reservation = { grantId: string; holder: string; seconds: number };

/**
 * Takes a use for a grant that is about to be made; false when none is left. `isAlive` says whether an earlier grant still stands:
 * a holder with a live grant needs no second use, and a reservation that ran out while its grant was exchanged is kept, not given back.
 */
export async function takeUse(
  store: Store,
  id: string,
  { grantId, holder, seconds }: Reservation,
  { now, isAlive }: { now: number; isAlive: (grantId: string) => Promise<boolean> },
): Promise<boolean> {
  const connector = await findConnector(store, id);
  if (!connector || connectorState(connector, now) === 'revoked') return false;
  if (connector.maxUses === undefined) return true;
  for (const use of connector.uses) {
    const ranOut = use.reservedUntil !== undefined && use.reservedUntil <= now;
    if (ranOut && (await isAlive(use.grantId))) await keepTakenUse(store, id, use.grantId);
    else if (
      use.holder === holder &&
      use.reservedUntil === undefined &&
      (await isAlive(use.grantId))
    )
      return true;
  }
  let taken = false;
  await change(store, id, (current) => {
    const after = reserveUse(current, { grantId, holder, reservedUntil: now + seconds }, now);
    taken = after !== undefined;
    return after;
  });
  return taken;
}

/** True when `takeUse` would succeed now, judged without writing. */
export function hasUseLeft(connector: Connector, holder: string, now: number): boolean {
  const others = liveUses(connector, now).filter((use) => use.holder !== holder);
  return connector.maxUses === undefined || others.length < connector.maxUses;
}

/** The code of this grant was exchanged: its use counts from now on. */
export async function keepTakenUse(store: Store, id: string, grantId: string): Promise<void> {
  await change(store, id, (connector) => keepUse(connector, grantId));
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
