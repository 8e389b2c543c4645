// Stores how far a target is, and records, counts and logs what happens to its items.
import type { Logger } from 'pino';
import type { Metrics } from '../../observability/metrics.ts';
import type { DeliveryTarget } from '../../settings/audit-delivery.ts';
import { KEEP } from '../../store/store.ts';
import { type AuditServices, recordAudit } from '../audit.ts';
import { lastAuditNumber, readAuditAfter } from '../audit-log.ts';
import { noteRollback } from '../chain/rollback.ts';
import type { Verdict } from './answer.ts';
import type { NextItems, NumberRange, PreparedBatch } from './batch.ts';
import {
  accepted,
  advance,
  type Batch,
  type DeliveryProgress,
  failed,
  findProgress,
  halved,
  held,
  isRefusingAll,
  newBatch,
  newProgress,
  type Place,
  PROGRESS_TTL,
  progressKey,
  rejected,
  rolledBack,
  withoutArguments,
} from './progress.ts';
import { hasArguments, type StoredItem } from './render.ts';

export type LedgerServices = Omit<AuditServices, 'metrics'> & {
  metrics: AuditServices['metrics'] &
    Pick<Metrics, 'deliveryFailure' | 'deliveryRejected' | 'deliveryLost'>;
  logger: Logger;
};

/** How an attempt ended. `partly`: what the receiver refused of an accepted batch. */
export type Outcome = Verdict & { partly?: { count: number; reason: string } };

export type Ledger = ReturnType<typeof openLedger>;

export function openLedger(services: LedgerServices, { id }: DeliveryTarget) {
  const { store, metrics, logger, now } = services;
  const key = progressKey(id);

  /** Saves a change, unless another process, or a command to send items again, changed what is in progress. Returns whether it did. */
  async function change(
    seen: Pick<DeliveryProgress, 'delivered' | 'batches'>,
    next: (current: DeliveryProgress) => DeliveryProgress,
  ): Promise<boolean> {
    let isSame = false;
    await store.update<DeliveryProgress>(key, (current) => {
      isSame =
        current?.delivered === seen.delivered && current.batches[0]?.id === seen.batches[0]?.id;
      return current && isSame ? { value: next(current), ttl: PROGRESS_TTL } : KEEP;
    });
    return isSame;
  }

  async function reportLost(lost: readonly NumberRange[]): Promise<void> {
    for (const { first, last } of lost) {
      const details = { target: id, first, last, count: last - first + 1 };
      await recordAudit(services, { event: 'delivery_lost', outcome: 'done', arguments: details });
      metrics.deliveryLost(id, details.count);
      logger.error(details, 'audit items were trimmed before a target had them');
    }
  }

  async function reportRejected(
    items: readonly StoredItem[],
    count: number,
    answer: string,
  ): Promise<void> {
    metrics.deliveryRejected(id, count);
    // Two targets that refuse everything would produce such items for each other without end.
    if (items.every(({ event }) => event === 'delivery_rejected')) return;
    // Receivers repeat what they got. What they say about one item is forgotten with its person.
    const only = items.length === 1 ? items[0] : undefined;
    const said = only ? { item: only.id, count, ...(answer === '' ? {} : { answer }) } : { count };
    const details = { target: id, ...said };
    await recordAudit(services, {
      event: 'delivery_rejected',
      account: only?.account,
      outcome: 'done',
      arguments: details,
    });
  }

  return {
    async read(): Promise<DeliveryProgress> {
      const progress = await findProgress(store, id);
      if (progress) return progress;
      // A new target gets everything that is still stored.
      const [oldest] = await readAuditAfter(store, 0, 1);
      const delivered = oldest ? oldest.number - 1 : await lastAuditNumber(store);
      const added = newProgress({ delivered, epoch: oldest?.epoch ?? '' });
      const found = await store.update<DeliveryProgress>(key, (current) =>
        current ? KEEP : { value: added, ttl: PROGRESS_TTL },
      );
      return found?.value ?? added;
    },

    async rollBack(progress: DeliveryProgress, place: Place): Promise<void> {
      const details = { target: id, from: progress.delivered, to: place.delivered };
      logger.warn(details, 'the audit log was restored: new items have the numbers of lost ones');
      const lost = { number: progress.delivered, epoch: progress.epoch };
      if (await noteRollback(services, lost))
        await change(progress, (current) => rolledBack(current, place));
    },

    /** The target gets none of the items. */
    async skip(progress: DeliveryProgress, { place, lost }: NextItems): Promise<void> {
      await reportLost(lost);
      await change(progress, (current) => ({
        ...advance(current, place),
        lost: current.lost + countOf(lost),
      }));
    },

    /** Stores the limits of a batch before it is sent. Returns what is stored; undefined if the batch must not be sent. */
    async begin(
      progress: DeliveryProgress,
      batch: Batch,
      lost: readonly NumberRange[],
    ): Promise<DeliveryProgress | undefined> {
      const [current, ...later] = progress.batches;
      if (current === batch) return progress;
      await reportLost(lost);
      const isPart = current !== undefined && batch.last < current.last;
      const rest = isPart ? [newBatch({ first: batch.last + 1, last: current.last })] : [];
      const begun = {
        ...progress,
        batches: [batch, ...rest, ...later],
        lost: progress.lost + countOf(lost),
        // What is lost is not lost again with the next batch.
        reached: Math.max(progress.reached, ...lost.map(({ last }) => last)),
      };
      return (await change(progress, () => begun)) ? begun : undefined;
    },

    async settle(
      progress: DeliveryProgress,
      attempted: Omit<PreparedBatch, 'body'>,
      outcome: Outcome,
    ): Promise<void> {
      const { items } = attempted;
      const next = afterAttempt(progress, attempted, outcome, {
        now: now(),
        random: Math.random(),
      });
      if (outcome.kind !== 'accept') metrics.deliveryFailure(id);
      const count = next.rejected - progress.rejected;
      const reason = outcome.kind === 'accept' ? (outcome.partly?.reason ?? '') : outcome.reason;
      if (count > 0) await reportRejected(items, count, reason);
      await change(progress, () => next);
      if (progress.state === next.state) return;
      if (next.state === 'delivering')
        logger.info({ target: id }, 'the audit log is delivered again');
      else logger.warn({ target: id, reason }, `the audit log is not delivered: ${next.state}`);
    },
  };
}

function countOf(ranges: readonly NumberRange[]): number {
  return ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);
}

function afterAttempt(
  progress: DeliveryProgress,
  { batch, items, place, newest }: Omit<PreparedBatch, 'body'>,
  outcome: Outcome,
  at: { now: number; random: number },
): DeliveryProgress {
  if (outcome.kind === 'accept') {
    const next = accepted(progress, place, { now: at.now, newest });
    return { ...next, rejected: next.rejected + (outcome.partly?.count ?? 0) };
  }
  const failure = { reason: outcome.reason, ...at };
  if (outcome.kind === 'hold') return held(progress, failure);
  if (outcome.kind === 'retry') return failed(progress, { ...failure, wait: outcome.wait });
  const middle = items[Math.floor((items.length - 1) / 2)];
  if (middle && items.length > 1) return halved(progress, batch, middle.number);
  if (!batch.withoutArguments && items.some(hasArguments)) return withoutArguments(progress, batch);
  return isRefusingAll(progress) ? held(progress, failure) : rejected(progress, place, failure);
}
