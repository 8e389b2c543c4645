// How far the targets are, for people and for metrics.
import type { DeliveryTarget } from '../../settings/audit-delivery.ts';
import type { Store } from '../../store/store.ts';
import { lastAuditNumber, type NumberedItem, readAuditAfter } from '../audit-log.ts';
import { type DeliveryProgress, findProgress } from './progress.ts';

export type DeliveryStatus = Pick<DeliveryTarget, 'id' | 'kind'> &
  Pick<DeliveryProgress, 'state' | 'failures' | 'rejected' | 'lost'> & {
    /** Scheme, host and path: a query may contain a secret. */
    url: string;
    /** The number of the last item that the receiver has. */
    delivered: number;
    /** Items that are not delivered yet. */
    backlog: number;
    /** Seconds since the epoch. Absent if no item that waits can be decrypted. */
    oldestAt?: number;
    deliveredAt?: number;
    failedAt?: number;
    retryAt?: number;
    reason?: string;
  };

const LOOKED_AT = 20;

export async function deliveryStatus(
  store: Store,
  { id, kind, url }: DeliveryTarget,
): Promise<DeliveryStatus> {
  const progress = await findProgress(store, id);
  const delivered = progress?.delivered ?? 0;
  const [waiting, last] = await Promise.all([
    readAuditAfter(store, delivered, LOOKED_AT),
    lastAuditNumber(store),
  ]);
  const [oldest] = waiting;
  const readable = await firstReadable(store, waiting, last);
  const { deliveredAt, failedAt, retryAt, reason } = progress ?? {};
  const oldestAt = oldest && (timeOf(readable) ?? deliveredAt);
  const isFailing = progress !== undefined && progress.state !== 'delivering';
  return {
    id,
    kind,
    url: new URL(url).origin,
    state: progress?.state ?? 'delivering',
    delivered,
    backlog: oldest ? Math.max(0, last - oldest.number + 1) : 0,
    ...(oldestAt === undefined ? {} : { oldestAt }),
    ...(deliveredAt === undefined ? {} : { deliveredAt }),
    ...(failedAt === undefined ? {} : { failedAt }),
    ...(isFailing && retryAt !== undefined ? { retryAt } : {}),
    ...(isFailing && reason !== undefined ? { reason } : {}),
    failures: progress?.failures ?? 0,
    rejected: progress?.rejected ?? 0,
    lost: progress?.lost ?? 0,
  };
}

/** The first items that cannot be decrypted are about as old as those that follow. These are looked for further and further on. */
async function firstReadable(
  store: Store,
  waiting: readonly NumberedItem[],
  last: number,
): Promise<NumberedItem | undefined> {
  const first = waiting[0]?.number ?? last;
  const end = last - LOOKED_AT;
  let page = waiting;
  for (let [after, ahead] = [first, LOOKED_AT]; ; ahead *= 2) {
    const readable = page.find(({ item }) => item !== undefined);
    if (readable || after >= end) return readable;
    after = Math.min(first + ahead - 1, end);
    page = await readAuditAfter(store, after, LOOKED_AT);
  }
}

function timeOf(found: NumberedItem | undefined): number | undefined {
  return found?.item && Date.parse(found.item.time) / 1000;
}

/** The number of the last item that each target has. What follows the lowest of them must not be trimmed yet. */
export async function deliveredNumbers(
  store: Store,
  targets: readonly DeliveryTarget[],
): Promise<number[]> {
  const found = await Promise.all(targets.map(({ id }) => findProgress(store, id)));
  return found.map((progress) => progress?.delivered ?? 0);
}
