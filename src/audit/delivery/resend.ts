// Sends items again, for example after a receiver lost them.
import type { DeliveryTarget } from '../../settings/audit-delivery.ts';
import { KEEP, type Store } from '../../store/store.ts';
import { lastAuditNumber, readAuditAfter } from '../audit-log.ts';
import {
  type DeliveryProgress,
  type Place,
  PROGRESS_TTL,
  progressKey,
  resent,
} from './progress.ts';

/** `since` is in seconds since the epoch. Does nothing if the target does not have these items yet. */
export async function resendSince(
  store: Store,
  { id }: DeliveryTarget,
  since: number,
): Promise<void> {
  const place = await placeBefore(store, since);
  await store.update<DeliveryProgress>(progressKey(id), (current) =>
    current && place.delivered < current.delivered
      ? { value: resent(current, place), ttl: PROGRESS_TTL }
      : KEEP,
  );
}

/** The place before the first item of the time. */
async function placeBefore(store: Store, since: number): Promise<Place> {
  let [before, found] = [0, (await lastAuditNumber(store)) + 1];
  while (found - before > 1) {
    const middle = Math.floor((before + found) / 2);
    const [next] = await readAuditAfter(store, middle - 1, 1);
    if (!next || Date.parse(next.item?.time ?? '') / 1000 >= since) found = middle;
    else before = middle;
  }
  const [last] = await readAuditAfter(store, Math.max(0, found - 2), 1);
  return { delivered: found - 1, epoch: last?.epoch ?? '' };
}
