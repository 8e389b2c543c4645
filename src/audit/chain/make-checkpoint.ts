// Makes the next checkpoint. Any process may: the mark of the log lets one of them append after each checkpoint.
import type { AuditServices } from '../audit.ts';
import { newItemId } from '../audit.ts';
import { appendMarkedAudit, lastAuditNumber, readAuditAfter } from '../audit-log.ts';
import { loadChainKeys } from './chain-keys.ts';
import { chainHead, type Checkpoint, signCheckpoint } from './checkpoint.ts';
import {
  listItems,
  type ListedCheckpoint,
  markedCheckpoint,
  markOf,
  readCheckpointMark,
  saveList,
} from './checkpoint-lists.ts';

/** A checkpoint covers no more, so that verifiers have to hold no more of them. */
export const CHECKPOINT_ITEMS = 1000;

/** The newest checkpoint. `isLost`: the store has its mark only. */
export async function newestCheckpoint({ store }: Pick<AuditServices, 'store'>): Promise<{
  mark: string;
  number: number;
  listed: ListedCheckpoint | undefined;
}> {
  const mark = await readCheckpointMark(store);
  if (!mark) return { mark: '', number: 0, listed: undefined };
  const listed = await markedCheckpoint(store, mark);
  return { mark: markOf(mark), number: mark.checkpoint, listed };
}

/** Returns the checkpoint. Undefined if there is nothing to cover, or if another process was faster. */
export async function makeCheckpoint(services: AuditServices): Promise<Checkpoint | undefined> {
  const { store, now, metrics, auditLog } = services;
  const { mark, number, listed } = await newestCheckpoint(services);
  const previous = listed?.checkpoint;
  const newest = await lastAuditNumber(store);
  const first = previous ? previous.last.number + 1 : await oldestNumber(services);
  const last = Math.min(newest, first + CHECKPOINT_ITEMS - 1);
  if (first > last) return undefined;
  const { ids, digests, epoch } = await listItems(store, first, last);
  const { log, keys } = await loadChainKeys(store, now());
  const [key] = keys;
  if (!key) throw new Error('the audit log has no key');
  const id = newItemId();
  const time = new Date(now() * 1000).toISOString();
  const checkpoint: Checkpoint = {
    checkpoint: number + 1,
    id,
    time,
    log,
    epoch,
    first: { number: first, id: ids[0] ?? '' },
    last: { number: last, id: ids.at(-1) ?? '' },
    previous: previous?.head ?? '',
    head: chainHead(previous?.head ?? '', digests),
  };
  const jws = await signCheckpoint(checkpoint, key.jwk);
  const item = { id, time, event: 'checkpoint', checkpoint: number + 1, jws, outcome: 'done' };
  const after = markOf({ checkpoint: number + 1, id });
  const stored = await appendMarkedAudit(store, { item, part: 'lasting' }, { before: mark, after });
  if (!stored) return undefined;
  await saveList(store, number + 1, { jws, ids, digests });
  metrics.auditEvent(item.event);
  auditLog(stored);
  return checkpoint;
}

async function oldestNumber({ store }: Pick<AuditServices, 'store'>): Promise<number> {
  return (await readAuditAfter(store, 0, 1))[0]?.number ?? Infinity;
}

const MAX_ATTEMPTS = 1000;

/** Makes checkpoints until one covers the item, so that nobody can deny it. Returns whether one does. */
export async function coverByCheckpoint(services: AuditServices, number: number): Promise<boolean> {
  for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts += 1) {
    const made = await makeCheckpoint(services);
    const covered = made ?? (await newestCheckpoint(services)).listed?.checkpoint;
    if (covered && covered.last.number >= number) return true;
  }
  return false;
}
