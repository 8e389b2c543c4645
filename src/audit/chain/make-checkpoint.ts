// Makes the next checkpoint. Any process may: the mark of the log lets one of them append after each checkpoint.
import type { Logger } from 'pino';
import { publicJwks } from '../../keys/signing-keys.ts';
import { type AuditServices, newItemId } from '../audit.ts';
import { appendMarkedAudit, lastAuditNumber, readAuditAfter } from '../audit-log.ts';
import { type ChainKeys, loadChainKeys } from './chain-keys.ts';
import {
  chainHead,
  type Checkpoint,
  CHECKPOINT_ITEMS,
  checkpointSignatures,
  signCheckpoint,
} from './checkpoint.ts';
import {
  listItems,
  type ListedCheckpoint,
  markedCheckpoint,
  markOf,
  newestSigned,
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

type Services = AuditServices & { logger: Logger };

/** Returns the checkpoint. Undefined if there is nothing to cover, or if another process was faster. */
export async function makeCheckpoint(services: Services): Promise<Checkpoint | undefined> {
  const { store, now, logger, metrics, auditLog, digests: known } = services;
  const { mark, number: marked, newest } = await newestCheckpoint(services);
  const { log, keys } = await loadChainKeys(store, now());
  const signed = await signedBefore(services, log, keys);
  const isOlder = newest && signed && newest.checkpoint.checkpoint < signed.checkpoint;
  const previous = newest && !isOlder ? newest.checkpoint : signed;
  const number = Math.max(marked, previous?.checkpoint ?? 0) + 1;
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
  const [key] = keys;
  if (!key) throw new Error('the audit log has no key');
  const id = newItemId();
  const time = new Date(now() * 1000).toISOString();
  const checkpoint: Checkpoint = {
    checkpoint: number,
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
  const item = { id, time, event: 'checkpoint', checkpoint: number, jws, outcome: 'done' };
  const after = markOf({ checkpoint: number, id });
  const appended = await appendMarkedAudit(
    store,
    { item, part: 'lasting' },
    { before: mark, after },
  );
  if (!appended) return undefined;
  known?.dropUpTo(first - 1);
  if ((!newest || isOlder) && number > 1)
    logger.error(
      { marked: mark, after: previous?.id },
      isOlder
        ? 'the audit log names an older checkpoint as its newest'
        : 'the audit log has lost the checkpoint that it names as its newest',
    );
  await saveList(store, number, { jws, ids, digests });
  metrics.auditEvent(item.event);
  auditLog(appended);
  return checkpoint;
}

/** The newest checkpoint in the log. A chain that began anew would sign everything as it is now. */
async function signedBefore(
  { store, now }: Services,
  log: string,
  keys: ChainKeys['keys'],
): Promise<Checkpoint | undefined> {
  const found = await newestSigned(store, checkpointSignatures(publicJwks(keys, now()).keys));
  return found?.log === log ? found : undefined;
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
export async function coverByCheckpoint(services: Services, number: number): Promise<boolean> {
  for (let races = 0; races < MAX_RACES;) {
    const made = await makeCheckpoint(services);
    const covered = made ?? (await newestCheckpoint(services)).newest?.checkpoint;
    if (covered && covered.last.number >= number) return true;
    if (!made) races += 1;
  }
  return false;
}
