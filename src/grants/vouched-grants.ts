// Which grant stands for a person, a client and a connector that an identity provider vouches for: the next assertion renews it.
import { createHash } from 'node:crypto';
import { KEEP, type Store } from '../store/store.ts';
import type { Level } from '../permission-level.ts';
import { type Lifetimes, stands } from './grant-life.ts';
import type { GrantRecord } from './grant-record.ts';
import { updateGrant } from './grants.ts';

/** The grants of one slot follow one another; at another level there is another, so that one who lowered a level is not overruled. */
export type Slot = { account: string; client: string; connector: string; level: Level };

type Pointer = { grantId: string };

function slotKey({ account, client, connector, level }: Slot): string {
  return `vouched-grant:${connector} ${account} ${level} ${client}`;
}

/** `lifetime` of the grant in seconds. */
export async function pointToGrant(
  store: Store,
  slot: Slot,
  grantId: string,
  lifetime: number,
): Promise<void> {
  await store.set<Pointer>(slotKey(slot), { grantId }, lifetime);
}

/** The id of the grant of this slot, from now on good for as long again; undefined when there is none, or `isGood` says no. */
export async function renewVouchedGrant(
  store: Store,
  slot: Slot,
  isGood: (record: GrantRecord) => boolean,
  { lifetimes, now }: { lifetimes: Lifetimes; now: number },
): Promise<string | undefined> {
  const grantId = (await store.get<Pointer>(slotKey(slot)))?.value.grantId;
  if (grantId === undefined) return undefined;
  let renewed = false;
  const renew = (record: GrantRecord) => {
    renewed = stands(record, lifetimes, now) && isGood(record);
    return renewed ? { ...record, vouchedAt: now } : KEEP;
  };
  const after = await updateGrant(store, grantId, renew, { lifetimes, now });
  return after && renewed ? grantId : undefined;
}

/** The same for the same assertion, so that a client whose answer was lost on the way makes one grant and not two. */
export function vouchedGrantId(slot: Slot, assertion: readonly (string | number)[]): string {
  const digest = createHash('sha256').update(JSON.stringify([slotKey(slot), ...assertion]));
  return digest.digest('base64url').slice(0, 27);
}
