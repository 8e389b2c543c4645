// Grants in the store: create, find, update, end, announce changes.
import { randomBytes } from 'node:crypto';
import {
  type Found,
  KEEP,
  type NewMember,
  type Store,
  StoreFull,
  StoreUnavailable,
} from '../store/store.ts';
import { type Lifetimes, TOMBSTONE_SECONDS, isActive, timeToLive } from './grant-lifetime.ts';
import {
  type Tombstone,
  type GrantLimit,
  type GrantRecord,
  isLive,
  isNewer,
  narrowed,
  type Raise,
  raised,
  tombstoneOf,
  type StoredGrant,
} from './grant-record.ts';
import type { Levels } from '../permission-levels.ts';
import type { Reason } from './reasons.ts';

/** Carries the id of a grant that ended or whose scope changed. */
export const GRANTS_CHANNEL = 'grants';
export const grantKey = (id: string) => `grant:${id}`;

export type FoundGrant = Found<GrantRecord>;

export type NewGrant = Pick<
  GrantRecord,
  'connector' | 'client' | 'grant' | 'vouchedAt' | 'machine' | 'callerClaims'
>;

/** Lists the grant first, and writes nothing else if a grant or tombstone with this id exists. True for the one call that created it. */
export async function addGrant(
  store: Store,
  id: string,
  wanted: NewGrant,
  lifetimes: Lifetimes,
  now: number,
  lists?: readonly NewMember[],
): Promise<boolean> {
  const record: GrantRecord = {
    version: 1,
    seed: randomBytes(16).toString('base64url'),
    createdAt: Math.floor(now),
    ...wanted,
  };
  return store.add(grantKey(id), record, timeToLive(record, lifetimes, now), lists);
}

/** Finds a grant or its tombstone. */
export async function findStoredGrant(store: Store, id: string): Promise<StoredGrant | undefined> {
  return known((await store.get<StoredGrant>(grantKey(id)))?.value);
}

/** Finds several grants or their tombstones, in the order of the ids. */
export async function findStoredGrants(
  store: Store,
  ids: readonly string[],
): Promise<(StoredGrant | undefined)[]> {
  return (await store.getMany<StoredGrant>(ids.map(grantKey))).map(known);
}

/** A grant is active from the exchange of its code until it ends or expires. */
export async function isGrantActive(
  store: Store,
  id: string,
  lifetimes: Lifetimes,
  now: number,
): Promise<boolean> {
  const record = (await findGrant(store, id))?.value;
  return record !== undefined && isActive(record, lifetimes, now);
}

export async function findGrant(store: Store, id: string): Promise<FoundGrant | undefined> {
  return live(await store.get<StoredGrant>(grantKey(id)));
}

/** Writes the result of `next`; KEEP writes nothing. Undefined if there is no grant or it ended. */
export async function updateGrant(
  store: Store,
  id: string,
  next: (record: GrantRecord) => GrantRecord | typeof KEEP,
  { lifetimes, now, seen }: { lifetimes: Lifetimes; now: number; seen?: FoundGrant },
): Promise<FoundGrant | undefined> {
  const after = await store.update<StoredGrant>(
    grantKey(id),
    (stored) => {
      const record = isLiveAndKnown(stored) ? next(stored) : KEEP;
      return record === KEEP ? KEEP : { value: record, ttl: timeToLive(record, lifetimes, now) };
    },
    seen,
  );
  return live(after);
}

/** Ends everything under the grant. Exactly one of concurrent callers gets the record, and announces it; the others get undefined. */
export async function endGrant(
  store: Store,
  id: string,
  reason: Reason,
  now: number,
): Promise<GrantRecord | undefined> {
  let ended: GrantRecord | undefined;
  try {
    await store.update<StoredGrant>(grantKey(id), (stored) => {
      ended = isLiveAndKnown(stored) ? stored : undefined;
      return ended ? { value: tombstoneOf(ended, reason, now), ttl: TOMBSTONE_SECONDS } : KEEP;
    });
  } catch (error) {
    if (!(error instanceof StoreFull)) throw error;
    // A full store refuses the tombstone but still deletes.
    const taken = await store.take<StoredGrant>(grantKey(id));
    ended = isLive(taken) ? taken : undefined;
  }
  return ended;
}

/**
 * Ends the grant, or prevents its creation: if there is none yet, `tombstone` takes its place for `ttl` seconds (`isNew`). `ended`
 * is as in `endGrant`.
 */
export async function denyGrant(
  store: Store,
  id: string,
  tombstone: Tombstone,
  ttl: number,
): Promise<{ isNew: boolean; ended: GrantRecord | undefined }> {
  const isNew = await store.add<StoredGrant>(grantKey(id), tombstone, ttl);
  const ended = isNew ? undefined : await endGrant(store, id, tombstone.ended, tombstone.endedAt);
  return { isNew, ended };
}

export type Narrowing = { before: GrantRecord; after: GrantRecord; isNarrower: boolean };

/**
 * Reduces the scope of a grant. Effective at once: access tokens of a higher level are rejected. Undefined if there is no grant or it ended.
 */
export async function narrowGrant(
  store: Store,
  levels: Levels,
  id: string,
  limit: GrantLimit,
  { lifetimes, now }: { lifetimes: Lifetimes; now: number },
): Promise<Narrowing | undefined> {
  let before: GrantRecord | undefined;
  let isNarrower = false;
  const narrow = (record: GrantRecord) => {
    const after = narrowed(levels, record, limit);
    before = record;
    isNarrower = after !== undefined;
    return after ?? KEEP;
  };
  const after = await updateGrant(store, id, narrow, { lifetimes, now });
  if (!before || !after) return undefined;
  if (isNarrower) await announceGrant(store, id);
  return { before, after: after.value, isNarrower };
}

/** Raises the level of a grant, unless it is another one now. Undefined if there is no grant or it ended. */
export async function raiseGrant(
  store: Store,
  levels: Levels,
  id: string,
  raise: Raise,
  { lifetimes, now }: { lifetimes: Lifetimes; now: number },
): Promise<{ after: GrantRecord; isRaised: boolean } | undefined> {
  let isRaised = false;
  const next = (record: GrantRecord) => {
    const after = raised(levels, record, raise);
    isRaised = after !== undefined;
    return after ?? KEEP;
  };
  const after = await updateGrant(store, id, next, { lifetimes, now });
  return after && { after: after.value, isRaised };
}

/** Call after a grant ended or lost scope. Notifies all processes, and resolves when a failover cannot undo the change. */
export async function announceGrant(store: Store, id: string): Promise<void> {
  await Promise.all([
    // Listeners also refresh every few seconds, so a lost message only delays them.
    store.publish(GRANTS_CHANNEL, id).catch(() => undefined),
    store.replicated(grantKey(id)),
  ]);
}

function isLiveAndKnown(stored: StoredGrant | undefined): stored is GrantRecord {
  return isLive(known(stored));
}

/**
 * During a rolling upgrade, an older process may read a newer record. It responds "try again" (503), because `invalid_grant` would make the
 * client discard its tokens.
 */
function known(stored: StoredGrant | undefined): StoredGrant | undefined {
  if (!stored || !isNewer(stored)) return stored;
  throw new StoreUnavailable(new Error('a grant was written by a newer version of Gatehouse'));
}

function live(found: Found<StoredGrant> | undefined): FoundGrant | undefined {
  return found && isLiveAndKnown(found.value) ? { value: found.value, raw: found.raw } : undefined;
}
