// Verifies the log in the store.
import type { Store } from '../../store/store.ts';
import { lastAuditNumber, readAuditAfter } from '../audit-log.ts';
import { publicChainKeys } from './chain-keys.ts';
import { type Checkpoint, checkpointSignatures } from './checkpoint.ts';
import { markedCheckpoint, readCheckpointMark, readList, sealedItems } from './checkpoint-lists.ts';
import { comparedWithIndex } from './verify-index.ts';
import { openVerifier, type Verification, type Verifier } from './verifier.ts';

export type StoreVerification = {
  /** Seconds since the epoch. Older checkpoints are not verified. */
  since?: number | undefined;
  /** That an auditor kept. */
  kept?: Checkpoint | undefined;
  now: number;
  onProgress?: (checkpoints: number) => void;
};

export async function verifyStore(
  store: Store,
  { since = -Infinity, kept, now, onProgress }: StoreVerification,
): Promise<Verification> {
  const { keys } = await publicChainKeys(store, now);
  const verifier = openVerifier({ isSigned: checkpointSignatures(keys), kept });
  // Before the mark, so that the items up to it have no later checkpoint.
  const last = await lastAuditNumber(store);
  const mark = await readCheckpointMark(store);
  const newest = mark && (await markedCheckpoint(store, mark))?.checkpoint;
  if (mark && !newest) verifier.removedBefore({ first: { number: 0 }, id: mark.id, time: '' });
  const first = (newest?.last.number ?? 0) + 1;
  const tail = comparedWithIndex(store, sealedItems(store, first, last), {
    first,
    last,
    report: verifier.misindexed,
  });
  await verifier.tail(tail, { newest, first, last });
  let [newer, isCut, done]: [Checkpoint | undefined, boolean, number] = [undefined, false, 0];
  let isMissing = false;
  for (let number = mark?.checkpoint ?? 0; number > 0 && !isCut; number -= 1) {
    const verified = await verifyOne(store, verifier, number, newer);
    if (!verified && !(await hasOlder(store, newer))) break;
    isMissing = !verified;
    newer = verified ?? newer;
    done += 1;
    onProgress?.(done);
    isCut = newer !== undefined && Date.parse(newer.time) / 1000 < since;
  }
  if (isMissing && newer) verifier.removedBefore(newer);
  if (verifier.hasSuspicions() && newest) await verifyNewer(store, verifier, newest.checkpoint);
  return verifier.result({ isCut });
}

async function verifyOne(
  store: Store,
  verifier: Verifier,
  number: number,
  newer?: Checkpoint,
): Promise<Checkpoint | undefined> {
  const listed = await readList(store, number);
  if (!listed) return undefined;
  const { first, last } = listed.checkpoint;
  const items = sealedItems(store, first.number, last.number);
  const range = { first: first.number, last: last.number, report: verifier.misindexed };
  return verifier.checkpoint(listed.list, comparedWithIndex(store, items, range), newer);
}

/** Whether the store has items that only an older checkpoint can cover. */
async function hasOlder(store: Store, newer: Checkpoint | undefined): Promise<boolean> {
  const [oldest] = await readAuditAfter(store, 0, 1);
  return oldest !== undefined && (!newer || oldest.number < newer.first.number);
}

/** What was trimmed or forgotten meanwhile has its explanation in checkpoints that were made meanwhile. */
async function verifyNewer(store: Store, verifier: Verifier, than: number): Promise<void> {
  const mark = await readCheckpointMark(store);
  let newer: Checkpoint | undefined;
  for (let number = mark?.checkpoint ?? 0; number > than; number -= 1)
    newer = await verifyOne(store, verifier, number, newer);
}
