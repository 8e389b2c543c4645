// The grants in the store: make, find, change, end, and prompt notice of changes.
import { randomBytes } from 'node:crypto';
import { type Found, KEEP, type Store, StoreFull, StoreUnavailable } from '../store/store.ts';
import { type Lifetimes, REASON_KEPT, stands, timeToLive } from './grant-life.ts';
import {
  type EndedMark,
  type GrantRecord,
  isLive,
  isNewer,
  markEnded,
  type StoredGrant,
} from './grant-record.ts';
import { type Limit, narrowed } from './narrowing.ts';
import type { Reason } from './reasons.ts';

/** Carries the id of a grant that ended or changed what it allows. */
export const GRANTS_CHANNEL = 'grants';
const grantKey = (id: string) => `grant:${id}`;

export type FoundGrant = Found<GrantRecord>;

export type NewGrant = Pick<GrantRecord, 'connector' | 'client' | 'grant' | 'vouchedAt'>;

/** Written once: where there is a grant of this id already, also one that ended, nothing changes. True for the one call that wrote it. */
export async function createGrant(
  store: Store,
  id: string,
  wanted: NewGrant,
  lifetimes: Lifetimes,
  now: number,
): Promise<boolean> {
  const record: GrantRecord = {
    version: 1,
    seed: randomBytes(16).toString('base64url'),
    createdAt: Math.floor(now),
    ...wanted,
  };
  return store.add(grantKey(id), record, timeToLive(record, lifetimes, now));
}

/** Also what is left of a grant that ended. */
export async function findStoredGrant(store: Store, id: string): Promise<StoredGrant | undefined> {
  return known((await store.get<StoredGrant>(grantKey(id)))?.value);
}

/** A grant counts from when its code was exchanged until it ends. */
export async function grantStands(
  store: Store,
  id: string,
  lifetimes: Lifetimes,
  now: number,
): Promise<boolean> {
  const record = (await findGrant(store, id))?.value;
  return record !== undefined && stands(record, lifetimes, now);
}

export async function findGrant(store: Store, id: string): Promise<FoundGrant | undefined> {
  return live(await store.get<StoredGrant>(grantKey(id)));
}

/** What `next` makes of the record; KEEP leaves it, undefined ends nothing and writes nothing. */
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

/** Ends everything under the grant. Of many callers exactly one gets the record it ended, and announces it; the others get undefined. */
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
      return ended ? { value: markEnded(ended, reason, now), ttl: REASON_KEPT } : KEEP;
    });
  } catch (error) {
    if (!(error instanceof StoreFull)) throw error;
    // It refuses the mark and still deletes.
    const taken = await store.take<StoredGrant>(grantKey(id));
    ended = isLive(taken) ? taken : undefined;
  }
  return ended;
}

/**
 * Ends the grant, also one that is about to be made: where there is none yet, `mark` takes its place for `ttl` seconds. Resolves as
 * `endGrant`.
 */
export async function denyGrant(
  store: Store,
  id: string,
  mark: EndedMark,
  ttl: number,
): Promise<GrantRecord | undefined> {
  const isFirst = await store.add<StoredGrant>(grantKey(id), mark, ttl);
  return isFirst ? undefined : endGrant(store, id, mark.ended, mark.endedAt);
}

export type Narrowing = { before: GrantRecord; after: GrantRecord; isNarrower: boolean };

/**
 * Never allows more than before. Effective at once: access tokens of a higher level are refused from now on. Undefined when there is no
 * grant, or it ended.
 */
export async function narrowGrant(
  store: Store,
  id: string,
  limit: Limit,
  { lifetimes, now }: { lifetimes: Lifetimes; now: number },
): Promise<Narrowing | undefined> {
  let before: GrantRecord | undefined;
  let isNarrower = false;
  const narrow = (record: GrantRecord) => {
    const after = narrowed(record, limit);
    before = record;
    isNarrower = after !== undefined;
    return after ?? KEEP;
  };
  const after = await updateGrant(store, id, narrow, { lifetimes, now });
  if (!before || !after) return undefined;
  if (isNarrower) await announceGrant(store, id);
  return { before, after: after.value, isNarrower };
}

/** To be called when something was taken away: tells all processes, and resolves when a failover would not give it back. */
export async function announceGrant(store: Store, id: string): Promise<void> {
  await Promise.all([
    // Listeners read again every few seconds anyway, so a message that cannot be sent undoes nothing.
    store.publish(GRANTS_CHANNEL, id).catch(() => undefined),
    store.replicated(grantKey(id)),
  ]);
}

function isLiveAndKnown(stored: StoredGrant | undefined): stored is GrantRecord {
  return isLive(known(stored));
}

/**
 * While two versions share a store, a process of the older one may find what it cannot judge. It leaves it alone and says "try again", because
 * a process of the newer one can; any refusal would make the client forget its tokens.
 */
function known(stored: StoredGrant | undefined): StoredGrant | undefined {
  if (!stored || !isNewer(stored)) return stored;
  throw new StoreUnavailable(new Error('a grant was written by a newer version of Gatehouse'));
}

function live(found: Found<StoredGrant> | undefined): FoundGrant | undefined {
  return found && isLiveAndKnown(found.value) ? { value: found.value, raw: found.raw } : undefined;
}
