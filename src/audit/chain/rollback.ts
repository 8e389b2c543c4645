// Notices that the store lost items that were stored: after a failover to a replica that did not have them, or when it was replaced by an older copy.
import type { Logger } from 'pino';
import { membersOf } from '../../json-values.ts';
import { type AuditItem, type AuditServices, recordAudit } from '../audit.ts';
import { isOther, openStoredDigests, type StoredDigests } from './stored-digests.ts';
import { beginAuditEpoch, lastAuditNumber, readAuditItems } from '../audit-log.ts';
import { searchAudit } from '../audit-search.ts';

/** What the store has lost, or might have. */
export type LostItem = { number: number; epoch: string; id?: string | undefined };

type Services = AuditServices & { logger: Logger };

/** Remembers the newest item that this process stored. */
export type AuditMemory = {
  digests: StoredDigests;
  remember(item: AuditItem): void;
  /** If the store does not have the item any more, says so in the log. */
  check(services: Services): Promise<void>;
};

export function openAuditMemory(): AuditMemory {
  let newest: LostItem | undefined;
  /** The newest item when this process stored one with a number that is not higher, or with another epoch. */
  let suspected: LostItem | undefined;
  /** Until the log says so. */
  let lost: LostItem | undefined;
  const digests = openStoredDigests();
  return {
    digests,
    remember({ number = 0, epoch = '', id }) {
      const isNext = newest?.epoch === epoch && number > newest.number;
      if (!isNext) suspected ??= newest;
      if (isNext || newest?.epoch !== epoch) newest = { number, epoch, id };
    },
    async check(services) {
      const [before, known] = [suspected, newest];
      for (const one of [before, known])
        if (one && !lost && (await isLost(services, one))) lost = one;
      if (suspected === before) suspected = undefined;
      lost ??= digests.lost;
      if (!lost) return;
      digests.clear();
      if (!(await noteRollback(services, lost))) return;
      digests.lost = undefined;
      if (newest === lost) newest = undefined;
      lost = undefined;
    },
  };
}

async function isLost({ store }: Services, known: LostItem): Promise<boolean> {
  const [found] = await readAuditItems(store, [known.number]);
  if (found) return isOther(known, found);
  // It may have been trimmed.
  return (await lastAuditNumber(store)) < known.number;
}

/** Several processes may notice it. */
const NOTICE_SECONDS = 60;

/**
 * Begins an epoch and records it, unless another process did, so that nobody takes new items for lost ones with the same numbers. Returns whether the
 * log says so: another process may be about to, and fail.
 */
export async function noteRollback(services: Services, lost: LostItem): Promise<boolean> {
  const { store, logger } = services;
  const last = await lastAuditNumber(store);
  const [newest] = await readAuditItems(store, [last]);
  if (newest && newest.epoch !== lost.epoch && (await isNoted(services, lost))) return true;
  const lock = `audit-rollback:${lost.epoch}`;
  if (!(await store.add(lock, true, NOTICE_SECONDS))) return false;
  const details = { epoch: lost.epoch, last, lost: lost.number };
  logger.error(details, 'the store lost items of the audit log');
  try {
    await beginAuditEpoch(store);
    await recordAudit(services, { event: 'rolled_back', outcome: 'done', arguments: details });
    return true;
  } catch (error) {
    await store.delete(lock).catch(() => undefined);
    throw error;
  }
}

const SEARCHED_ROLLBACKS = 100;

/** A process that began an epoch may have been killed before it recorded that. */
async function isNoted({ store }: Services, { epoch }: LostItem): Promise<boolean> {
  const filters = { event: 'rolled_back' };
  const { items } = await searchAudit({ store }, { filters, limit: SEARCHED_ROLLBACKS });
  return items.some((item) => membersOf(item.arguments)['epoch'] === epoch);
}
