// Makes the next checkpoint. Any process may: the mark of the log lets one of them append after each checkpoint.
import { type AuditServices, newItemId } from '../audit.ts';
import { appendMarkedAudit, lastAuditNumber, readAuditAfter } from '../audit-log.ts';
import { loadChainKeys } from './chain-keys.ts';
import { chainHead, type Checkpoint, CHECKPOINT_ITEMS, signCheckpoint } from './checkpoint.ts';
import {
  listItems,
  type ListedCheckpoint,
  markedCheckpoint,
  markOf,
  readCheckpointMark,
  saveList,
} from './checkpoint-lists.ts';

/** `newest` is undefined before the first checkpoint, and if the store has lost it. */
export async function newestCheckpoint({ store }: Pick<AuditServices, 'store'>): Promise<{
  mark: string;
  number: number;
  newest: ListedCheckpoint | undefined;
}> {
  const mark = await readCheckpointMark(store);
  if (!mark) return { mark: '', number: 0, newest: undefined };
  const newest = await markedCheckpoint(store, mark);
  return { mark: markOf(mark), number: mark.checkpoint, newest };
}

/** Returns the checkpoint. Undefined if there is nothing to cover, or if another process was faster. */
export async function makeCheckpoint(services: AuditServices): Promise<Checkpoint | undefined> {
  const { store, now, metrics, auditLog, digests: known } = services;
  const { mark, number, newest } = await newestCheckpoint(services);
  const previous = newest?.checkpoint;
  const stored = await lastAuditNumber(store);
  const first = previous ? previous.last.number + 1 : await oldestNumber(services);
  let last = Math.min(stored, first + CHECKPOINT_ITEMS - 1);
  if (first > last) return undefined;
  let listed = await listItems(store, first, last, known);
  if (listed.unreadable !== undefined && previous && !isPatienceOver(services, previous)) {
    last = listed.unreadable - 1;
    if (first > last) return undefined;
    listed = await listItems(store, first, last, known);
  }
  const { ids, digests, epoch } = listed;
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
  const appended = await appendMarkedAudit(
    store,
    { item, part: 'lasting' },
    { before: mark, after },
  );
  if (!appended) return undefined;
  await saveList(store, number + 1, { jws, ids, digests });
  metrics.auditEvent(item.event);
  auditLog(appended);
  return checkpoint;
}

async function oldestNumber({ store }: Pick<AuditServices, 'store'>): Promise<number> {
  return (await readAuditAfter(store, 0, 1))[0]?.number ?? Infinity;
}

/** While processes get a new root secret one by one, some cannot read what others write. */
const PATIENCE_SECONDS = 600;

function isPatienceOver({ now }: AuditServices, { time }: Checkpoint): boolean {
  return now() - Date.parse(time) / 1000 > PATIENCE_SECONDS;
}

const MAX_RACES = 10;

/** Makes checkpoints until one covers the item, so that nobody can deny it. Returns whether one does. */
export async function coverByCheckpoint(services: AuditServices, number: number): Promise<boolean> {
  for (let races = 0; races < MAX_RACES;) {
    const made = await makeCheckpoint(services);
    const covered = made ?? (await newestCheckpoint(services)).newest?.checkpoint;
    if (covered && covered.last.number >= number) return true;
    if (!made) races += 1;
  }
  return false;
}
