// Finds the grant that the next ID-JAG of an account, client and connector renews.
import { createHash } from 'node:crypto';
import { KEEP, type Store } from '../store/store.ts';
import type { Level } from '../permission-level.ts';
import { type Lifetimes, isActive } from './grant-lifetime.ts';
import type { GrantRecord } from './grant-record.ts';
import { updateGrant } from './grants.ts';

/** Each key has one current grant. The level is part of it, so that an assertion cannot raise a level that the person lowered. */
export type IdJagGrantKey = { account: string; client: string; connector: string; level: Level };

type Pointer = { grantId: string };

function storeKey({ account, client, connector, level }: IdJagGrantKey): string {
  return `vouched-grant:${connector} ${account} ${level} ${client}`;
}

/** `lifetime` in seconds. */
export async function setCurrentGrant(
  store: Store,
  key: IdJagGrantKey,
  grantId: string,
  lifetime: number,
): Promise<void> {
  await store.set<Pointer>(storeKey(key), { grantId }, lifetime);
}

/** Renews the current grant and returns its id. Undefined if there is none, or it is not active or not `isRenewable`. */
export async function renewIdJagGrant(
  store: Store,
  key: IdJagGrantKey,
  isRenewable: (record: GrantRecord) => boolean,
  { lifetimes, now }: { lifetimes: Lifetimes; now: number },
): Promise<string | undefined> {
  const grantId = (await store.get<Pointer>(storeKey(key)))?.value.grantId;
  if (grantId === undefined) return undefined;
  let renewed = false;
  const renew = (record: GrantRecord) => {
    renewed = isActive(record, lifetimes, now) && isRenewable(record);
    return renewed ? { ...record, vouchedAt: now } : KEEP;
  };
  const after = await updateGrant(store, grantId, renew, { lifetimes, now });
  return after && renewed ? grantId : undefined;
}

/** The same id for the same assertion, so that a client which retries after a lost response creates one grant. */
export function idJagGrantId(key: IdJagGrantKey, assertion: readonly (string | number)[]): string {
  const digest = createHash('sha256').update(JSON.stringify([storeKey(key), ...assertion]));
  return digest.digest('base64url').slice(0, 27);
}
