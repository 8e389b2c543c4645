// Which grants an account, a connector or a client has: sets of ids in the store, with no write but the one at approval.
import type { Store } from '../store/store.ts';
import { type Lifetimes, overBecause, REASON_KEPT, wasExchanged } from './grant-life.ts';
import { isLive, type StoredGrant } from './grant-record.ts';
import { findStoredGrant } from './grants.ts';

/** What a list is of. */
export type Owner = { kind: 'account' | 'client' | 'connector'; id: string };

/** `id` of the grant, and when it was approved in seconds. Places sort by age as text and go into `after`. */
export type Listed = { id: string; createdAt: number; place: string };

const DAY = 86_400;
/** A list is many sets, one for each quarter in which grants were made, so that old ones disappear as a whole and nobody has to tidy up. */
const QUARTER = 90 * DAY;
/** Lists are read this far back however short grants live now: the settings may have allowed more. */
const LONGEST = 400 * DAY;
/** A member is written before its grant, which comes at once or never. */
const UNDER_WAY = 120;
const PLACE = /^\d{12}\.[\w-]{16,64}$/;
const CLIENTS = 'clients-connected';

function setKey({ kind, id }: Owner, quarter: number): string {
  return `grants-of-${kind}:${id} ${quarter}`;
}

/**
 * To be called before the grant is written: a crash between the two leaves a member without a grant, which readers skip and drop.
 * `lifetime` of the grant and `now` in seconds.
 */
export async function listGrant(
  store: Store,
  grantId: string,
  owners: { account: string; client: string; connector: string },
  { lifetime, now }: { lifetime: number; now: number },
): Promise<void> {
  const place = `${String(Math.floor(now)).padStart(12, '0')}.${grantId}`;
  const quarter = Math.floor(now / QUARTER);
  // All share one set, also with grants that live longer, from when the settings allowed it.
  const ttl = Math.max(lifetime, LONGEST) + REASON_KEPT;
  const { account, client, connector } = owners;
  await Promise.all([
    store.addMember(setKey({ kind: 'account', id: account }, quarter), place, ttl),
    store.addMember(setKey({ kind: 'client', id: client }, quarter), place, ttl),
    store.addMember(setKey({ kind: 'connector', id: connector }, quarter), place, ttl),
    store.addMember(`${CLIENTS}:${quarter}`, client, ttl),
  ]);
}

/** Oldest first, also those of which nothing is left but the member. */
export async function listedGrants(
  store: Store,
  owner: Owner,
  { lifetime, now }: { lifetime: number; now: number },
): Promise<Listed[]> {
  const keys = quarters(lifetime, now).map((quarter) => setKey(owner, quarter));
  const sets = await Promise.all(keys.map((key) => store.members(key)));
  const places = sets.flat().filter((place) => PLACE.test(place));
  // A form that was sent twice may have listed its grant twice.
  const newestFirst = places.toSorted().toReversed().map(listed);
  return [...new Map(newestFirst.map((entry) => [entry.id, entry])).values()].toReversed();
}

/** The ids of the clients that somebody connected with, in the order of the alphabet. */
export async function connectedClients(
  store: Store,
  { lifetime, now }: { lifetime: number; now: number },
): Promise<string[]> {
  const keys = quarters(lifetime, now).map((quarter) => `${CLIENTS}:${quarter}`);
  const sets = await Promise.all(keys.map((key) => store.members(key)));
  return [...new Set(sets.flat())].sort();
}

/** The grant, or what is left of one that ended; undefined when that is gone, and then it is taken off the list. */
export async function findListed(
  store: Store,
  owner: Owner,
  { id, createdAt, place }: Listed,
  { lifetimes, now }: { lifetimes: Lifetimes; now: number },
): Promise<StoredGrant | undefined> {
  const stored = await findStoredGrant(store, id);
  const isOver = stored ? wasNeverUsed(stored, lifetimes, now) : now - createdAt > UNDER_WAY;
  if (isOver) {
    const quarter = Math.floor(createdAt / QUARTER);
    // Whoever reads next tries again.
    await store.removeMember(setKey(owner, quarter), place).catch(() => undefined);
  }
  return isOver ? undefined : stored;
}

/** Approved, and never fetched by the client: nothing was connected, so there is nothing to tell. */
function wasNeverUsed(stored: StoredGrant, lifetimes: Lifetimes, now: number): boolean {
  return (
    isLive(stored) && !wasExchanged(stored) && overBecause(stored, lifetimes, now) !== undefined
  );
}

function listed(place: string): Listed {
  const [createdAt, id = ''] = place.split('.');
  return { id, createdAt: Number(createdAt), place };
}

function quarters(lifetime: number, now: number): number[] {
  const oldest = Math.floor((now - Math.max(lifetime, LONGEST) - REASON_KEPT) / QUARTER);
  const newest = Math.floor(now / QUARTER);
  return Array.from({ length: newest - oldest + 1 }, (_, count) => oldest + count);
}
