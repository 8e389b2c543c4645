// Lists the grants of an account, connector or client. Sets of ids in the store, written only at approval.
import type { NewMember, Store } from '../store/store.ts';
import { type Lifetimes, endReason, TOMBSTONE_SECONDS, wasExchanged } from './grant-lifetime.ts';
import { isLive, type StoredGrant } from './grant-record.ts';
import { findStoredGrants } from './grants.ts';

/** Whose grants a list holds. */
export type Owner = { kind: 'account' | 'client' | 'connector'; id: string };

/** A list entry. `createdAt` is the approval in seconds. `place` sorts by age as text and is the pagination cursor. */
export type ListedGrant = { id: string; createdAt: number; place: string; owner: Owner };

const DAY = 86_400;
/** A list has one set per quarter of approval, so that old sets expire as a whole. */
const QUARTER = 90 * DAY;
/** Lists are read at least this far back, because earlier settings may have allowed longer grants. */
const MIN_LISTED_SECONDS = 400 * DAY;
/** A member is written before its grant. After this time the grant is missing for good. */
const PENDING_SECONDS = 120;
const PLACE = /^\d{12}\.[\w-]{16,64}$/;
const PAGE_GRANTS = 50;
const CLIENTS = 'clients-connected';

function setKey({ kind, id }: Owner, quarter: number): string {
  return `grants-of-${kind}:${id} ${quarter}`;
}

/**
 * The list entries of a grant, which must exist before it: a crash between the two leaves a member without a grant, which readers skip and remove.
 * `lifetime` of the grant and `now` in seconds.
 */
export function listEntries(
  grantId: string,
  owners: { account: string; client: string; connector: string },
  { lifetime, now }: { lifetime: number; now: number },
): NewMember[] {
  const place = `${String(Math.floor(now)).padStart(12, '0')}.${grantId}`;
  const quarter = Math.floor(now / QUARTER);
  // The set may hold grants that were approved under settings with a longer lifetime.
  const ttl = Math.max(lifetime, MIN_LISTED_SECONDS) + TOMBSTONE_SECONDS;
  const { account, client, connector } = owners;
  return [
    { key: setKey({ kind: 'account', id: account }, quarter), member: place, ttl },
    { key: setKey({ kind: 'client', id: client }, quarter), member: place, ttl },
    { key: setKey({ kind: 'connector', id: connector }, quarter), member: place, ttl },
    { key: `${CLIENTS}:${quarter}`, member: client, ttl },
  ];
}

/** `lifetime` of grants, and `now`, in seconds. `after` is a place. */
export type GrantRange = {
  lifetime: number;
  now: number;
  after?: string | undefined;
  newestFirst?: boolean | undefined;
};

/** Yields pages of entries, oldest first unless `newestFirst`, including entries whose grant is gone. */
export async function* listedGrants(
  store: Store,
  owner: Owner,
  { lifetime, now, after, newestFirst = false }: GrantRange,
): AsyncGenerator<ListedGrant[]> {
  const range = { after, limit: PAGE_GRANTS, newestFirst };
  const inOrder = quarters(lifetime, now).filter((quarter) => isLeft(quarter, range));
  const keys = (newestFirst ? inOrder.toReversed() : inOrder).map((each) => setKey(owner, each));
  // Most lists have one page in one or two quarters.
  const first = await Promise.all(keys.map((key) => store.page(key, range)));
  const seen = new Set<string>();
  for (const [index, key] of keys.entries()) {
    let places = first[index] ?? [];
    while (places.length > 0) {
      yield entriesOf(owner, places, seen);
      if (places.length < PAGE_GRANTS) break;
      places = await store.page(key, { ...range, after: places.at(-1) });
    }
  }
}

/** What `listedGrants` yields of each owner, oldest first. Undefined for an owner with more than a page. */
export async function shortLists(
  store: Store,
  owners: readonly Owner[],
  { lifetime, now }: Pick<GrantRange, 'lifetime' | 'now'>,
): Promise<(ListedGrant[] | undefined)[]> {
  const inOrder = quarters(lifetime, now);
  const keys = owners.map((owner) => inOrder.map((quarter) => setKey(owner, quarter)));
  const sizes = await store.sizes(keys.flat(), PAGE_GRANTS);
  return Promise.all(
    owners.map(async (owner, index) => {
      const from = index * inOrder.length;
      const own = sizes.slice(from, from + inOrder.length);
      if (own.reduce((sum, size) => sum + size, 0) >= PAGE_GRANTS) return undefined;
      const filled = (keys[index] ?? []).filter((_key, n) => (own[n] ?? 0) > 0);
      const pages = await Promise.all(filled.map((key) => store.page(key, { limit: PAGE_GRANTS })));
      const places = pages.flat();
      // Some were added meanwhile.
      if (places.length >= PAGE_GRANTS) return undefined;
      return entriesOf(owner, places, new Set());
    }),
  );
}

/** `seen`: the ids of entries before these. */
function entriesOf(owner: Owner, places: readonly string[], seen: Set<string>): ListedGrant[] {
  const entries = places
    .filter((place) => PLACE.test(place))
    .map((place) => ({ ...parsed(place), owner }));
  // A form that was sent twice may list its grant twice, within seconds.
  return entries.filter(({ id }) => !seen.has(id) && seen.add(id));
}

/** About how many grants the owners have together, counting at most `limit` of each owner in a quarter. Some may have expired. */
export async function countGrants(
  store: Store,
  owners: readonly Owner[],
  { lifetime, now, limit }: { lifetime: number; now: number; limit: number },
): Promise<number> {
  const keys = owners.flatMap((owner) =>
    quarters(lifetime, now).map((quarter) => setKey(owner, quarter)),
  );
  return (await store.sizes(keys, limit)).reduce((sum, size) => sum + size, 0);
}

/** The newest grants of each owner, at most `limit`. With `isAll` these are all that are listed. Some may have expired. */
export async function newestGrants(
  store: Store,
  owners: readonly Owner[],
  { lifetime, now, limit }: { lifetime: number; now: number; limit: number },
): Promise<{ ids: string[]; isAll: boolean }[]> {
  const newestFirst = quarters(lifetime, now).toReversed();
  const keys = owners.map((owner) => newestFirst.map((quarter) => setKey(owner, quarter)));
  const sizes = await store.sizes(keys.flat(), limit + 1);
  return Promise.all(
    keys.map(async (own, index) => {
      const count = (n: number) => sizes[index * own.length + n] ?? 0;
      const filled = own.filter((_key, n) => count(n) > 0);
      const range = { limit, newestFirst: true };
      const pages = await Promise.all(filled.map((key) => store.page(key, range)));
      const places = pages.flat().filter((place) => PLACE.test(place));
      const total = own.reduce((sum, _key, n) => sum + count(n), 0);
      return {
        ids: places.slice(0, limit).map((place) => parsed(place).id),
        isAll: total <= limit,
      };
    }),
  );
}

/** Whether entries of the quarter may follow `after`. */
function isLeft(
  quarter: number,
  { after, newestFirst }: Pick<GrantRange, 'after' | 'newestFirst'>,
): boolean {
  if (after === undefined) return true;
  const last = Math.floor(parsed(after).createdAt / QUARTER);
  return newestFirst ? quarter <= last : quarter >= last;
}

/** The keys of the sets with the ids of the clients that have had a grant. */
export function connectedClientSets({
  lifetime,
  now,
}: {
  lifetime: number;
  now: number;
}): string[] {
  return quarters(lifetime, now).map((quarter) => `${CLIENTS}:${quarter}`);
}

/** The ids of the clients that have had a grant, sorted. */
export async function connectedClients(
  store: Store,
  times: { lifetime: number; now: number },
): Promise<string[]> {
  const keys = connectedClientSets(times);
  const sets = await Promise.all(keys.map((key) => store.members(key)));
  return [...new Set(sets.flat())].sort();
}

/** Whether more than `count` clients have had a grant. */
export async function hasMoreClients(
  store: Store,
  times: { lifetime: number; now: number },
  count: number,
): Promise<boolean> {
  const keys = connectedClientSets(times).toReversed();
  const sizes = await store.sizes(keys, count + 1);
  if (sizes.some((size) => size > count)) return true;
  const found = new Set<string>();
  for (const key of keys) {
    for (const id of await store.page(key, { limit: count + 1 })) found.add(id);
    if (found.size > count) return true;
  }
  return false;
}

/** Finds the grants or their tombstones, in the order of the entries. If both are gone, the place is undefined, and the entry is removed. */
export async function findListed(
  store: Store,
  entries: readonly ListedGrant[],
  { lifetimes, now }: { lifetimes: Lifetimes; now: number },
): Promise<(StoredGrant | undefined)[]> {
  const found = await findStoredGrants(
    store,
    entries.map(({ id }) => id),
  );
  return Promise.all(
    entries.map(async ({ createdAt, place, owner }, index) => {
      const stored = found[index];
      const isGone = stored
        ? wasNeverUsed(stored, lifetimes, now)
        : now - createdAt > PENDING_SECONDS;
      if (!isGone) return stored;
      const quarter = Math.floor(createdAt / QUARTER);
      // The next read tries again.
      await store.removeMember(setKey(owner, quarter), place).catch(() => undefined);
      return undefined;
    }),
  );
}

/** Approved, but the client never exchanged the code: not a connection. */
function wasNeverUsed(stored: StoredGrant, lifetimes: Lifetimes, now: number): boolean {
  return isLive(stored) && !wasExchanged(stored) && endReason(stored, lifetimes, now) !== undefined;
}

function parsed(place: string): Omit<ListedGrant, 'owner'> {
  const [createdAt, id = ''] = place.split('.');
  return { id, createdAt: Number(createdAt), place };
}

function quarters(lifetime: number, now: number): number[] {
  const age = Math.max(lifetime, MIN_LISTED_SECONDS) + TOMBSTONE_SECONDS;
  const oldest = Math.floor((now - age) / QUARTER);
  const newest = Math.floor(now / QUARTER);
  return Array.from({ length: newest - oldest + 1 }, (_, count) => oldest + count);
}
