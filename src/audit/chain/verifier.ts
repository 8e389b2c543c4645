// Compares items with the checkpoints that cover them, from the newest checkpoint to the oldest: what explains a gap or a deleted value (a trimming, a
// forgotten account) is newer than it.
import type { AuditItem } from '../audit.ts';
import {
  chainHead,
  type Checkpoint,
  type CheckpointList,
  type IsSigned,
  readCheckpoint,
} from './checkpoint.ts';
import { openRanges } from './ranges.ts';
import { itemDigest, type SealedItem } from './sealed-item.ts';

/** `index`: lists and filters do not find the item, or not as it is. */
export type ProblemKind = 'changed' | 'removed' | 'inserted' | 'missing_tail' | 'index';
export type Problem = { kind: ProblemKind; id: string; time: string };

export type Verification = {
  ok: boolean;
  checkpoints: number;
  /** In the order of the log. */
  problems: Problem[];
  /** What an auditor should know although nothing is wrong. */
  notes: { kind: 'rolled_back'; id: string; time: string }[];
};

/** An item, or what is at its place. Without `item`, it cannot be decrypted. */
export type VerifiedItem = { number: number; item: SealedItem | undefined };

type Finding = Problem & { number: number };
/** A finding unless it has an explanation that comes later: the trimming of the number, or the forgetting of the account. */
type Suspicion = Finding & { account?: string | undefined };

/** The oldest ones. More of them would say nothing new. */
const MAX_FINDINGS = 1000;

export type Verifier = ReturnType<typeof openVerifier>;

export type VerifierOptions = {
  isSigned: IsSigned;
  /** That an auditor kept. */
  kept?: Checkpoint | undefined;
};

type Tail = {
  /** The newest checkpoint. */
  newest: Checkpoint | undefined;
  /** The numbers of the first item that must be there, and of the last one that was stored, if they are known. */
  first?: number | undefined;
  last?: number;
};

export function openVerifier({ isSigned, kept }: VerifierOptions) {
  let findings: Finding[] = [];
  let suspicions: Suspicion[] = [];
  let notes: (Verification['notes'][number] & { number: number })[] = [];
  let [checkpoints, isKeptFound] = [0, false];
  let [newest, oldest]: (Checkpoint | undefined)[] = [];
  const trimmed = openRanges();
  /** The highest number that was trimmed by the age of all items, not of calls only: what explained older gaps may be gone too. */
  let trimmedByAge = 0;
  /** By number: the checkpoints that items have, until their lists were read. */
  const said = new Map<number, { number: number; checkpoint: Checkpoint }>();
  const isRead = (checkpoint: number) =>
    newest !== undefined &&
    oldest !== undefined &&
    checkpoint >= oldest.checkpoint &&
    checkpoint <= newest.checkpoint;
  /** By account: the number of its newest `account_forgotten`. */
  const forgotten = new Map<string, number>();

  const report = (finding: Finding) => {
    findings.push(finding);
    if (findings.length > 2 * MAX_FINDINGS) findings = oldestOf(findings);
  };
  const suspect = (suspicion: Suspicion) => {
    if (isExplained(suspicion)) return;
    suspicions.push(suspicion);
    if (suspicions.length > 2 * MAX_FINDINGS) suspicions = oldestOf(suspicions);
  };
  const isExplained = ({ number, account }: Suspicion) =>
    account === undefined ? trimmed.has(number) : (forgotten.get(account) ?? 0) > number;
  const noteForgotten = ({ event, account }: AuditItem, number: number) => {
    if (event === 'account_forgotten' && account !== undefined)
      forgotten.set(account, Math.max(number, forgotten.get(account) ?? 0));
  };
  /** A checkpoint or its list is missing, and this one follows it. */
  const removedBefore = ({
    first,
    id,
    time,
  }: Pick<Checkpoint, 'id' | 'time'> & { first: { number: number } }) =>
    report({ kind: 'removed', number: first.number - 1, id, time });
  /** Each checkpoint that an item has is one of the chain, up to the one with the number `newest`. */
  const noteCheckpoint = ({ jws = '', time }: SealedItem, number: number, newest: number) => {
    const found = readCheckpoint(jws);
    if (!found) return;
    const { checkpoint, id } = found;
    const before = said.get(checkpoint);
    // One that is there twice may be in place of a newer one.
    const isOther = before && (before.number !== number || before.checkpoint.id !== id);
    if (checkpoint > newest || isOther) report({ kind: 'removed', number, id, time });
    // It was read already if a checkpoint that was made during the verification covers its item.
    else if (!isRead(checkpoint)) said.set(checkpoint, { number, checkpoint: found });
  };
  const learn = (item: SealedItem, number: number) => {
    noteForgotten(item, number);
    if (item.event === 'audit_trimmed') {
      const { ranges = [] } = item;
      // A trimming explains only numbers below its own.
      const older = ranges.filter(([first]) => first < number);
      trimmed.add(older.map(([first, last]) => [first, Math.min(last, number - 1)]));
      if (item.class === 'lasting')
        trimmedByAge = Math.max(trimmedByAge, ...ranges.map(([, last]) => last));
    }
    if (item.event === 'rolled_back')
      notes.push({ kind: 'rolled_back', id: item.id ?? '', time: item.time, number });
  };

  return {
    /** Items that no checkpoint covers yet. Call it before `checkpoint`. */
    async tail(
      items: AsyncIterable<VerifiedItem>,
      { newest: covering, first, last }: Tail,
    ): Promise<void> {
      let next = first;
      for await (const { number, item } of items) {
        next ??= number;
        const place = { number, id: item?.id ?? String(number), time: item?.time ?? '' };
        if (number < next) report({ kind: 'inserted', ...place });
        if (number > next) report({ kind: 'removed', ...place });
        if (!item) report({ kind: 'changed', ...place });
        else {
          noteForgotten(item, number);
          noteCheckpoint(item, number, covering?.checkpoint ?? 0);
        }
        next = Math.max(next, number + 1);
      }
      if (last !== undefined && next !== undefined && last >= next)
        report({ kind: 'removed', number: next, id: String(next), time: '' });
    },

    /** A checkpoint with the items from its first to its last. `newer` is the one that follows, if it is known. */
    async checkpoint(
      list: CheckpointList,
      items: AsyncIterable<VerifiedItem>,
      newer?: Checkpoint,
    ): Promise<Checkpoint> {
      const checkpoint = readCheckpoint(list.jws);
      if (!checkpoint) throw new TypeError('the list of a checkpoint has no checkpoint');
      const { id, time, first, last, previous, head } = checkpoint;
      const broken = { kind: 'changed', number: last.number, id, time } as const;
      checkpoints += 1;
      const count = last.number - first.number + 1;
      const isComplete = list.ids.length === count && list.digests.length === count;
      const isIntact = isComplete && chainHead(previous, list.digests) === head;
      if (!isIntact || !(await isSigned(list.jws))) report(broken);
      else if (newer && newer.checkpoint > checkpoint.checkpoint + 1) removedBefore(newer);
      else if (newer && !follows(newer, checkpoint)) report(broken);
      else if ((said.get(checkpoint.checkpoint)?.checkpoint.id ?? id) !== id) report(broken);
      said.delete(checkpoint.checkpoint);
      if (kept?.checkpoint === checkpoint.checkpoint)
        isKeptFound = kept.id === id && kept.head === head;
      await compareItems(checkpoint, list, items, newer);
      if (!newest || checkpoint.checkpoint > newest.checkpoint) newest = checkpoint;
      if (!oldest || checkpoint.checkpoint < oldest.checkpoint) oldest = checkpoint;
      return checkpoint;
    },

    removedBefore,

    misindexed: (place: Omit<Finding, 'kind'>) => report({ kind: 'index', ...place }),

    hasSuspicions: () => suspicions.length > 0,

    /** `isCut`: older items were not to be verified. */
    result({ isCut = false } = {}): Verification {
      const found = [...findings, ...suspicions.filter((one) => !isExplained(one))];
      const gap =
        oldest && !isCut && oldest.checkpoint > 1 ? trimmed.gapBelow(oldest.first.number) : 0;
      if (oldest && gap > trimmedByAge)
        found.push({ kind: 'removed', number: gap, id: oldest.first.id, time: oldest.time });
      found.push(...(oldest ? removedCheckpoints(oldest, said.values()) : []));
      if (kept && !isKeptFound && !isOlder(kept, oldest))
        found.push({ kind: 'missing_tail', number: Infinity, id: kept.id, time: kept.time });
      // Of items that are not as they were written, the index says nothing.
      const changed = found.filter(({ kind }) => kind !== 'index');
      const told = changed.length > 0 ? changed : found;
      const problems = oldestOf(told).map(({ kind, id, time }) => ({ kind, id, time }));
      return {
        ok: problems.length === 0,
        checkpoints,
        problems,
        notes: notes.toReversed().map(({ kind, id, time }) => ({ kind, id, time })),
      };
    },
  };

  async function compareItems(
    { checkpoint, first, last, time, id: checkpointId }: Checkpoint,
    { ids, digests }: CheckpointList,
    items: AsyncIterable<VerifiedItem>,
    newer: Checkpoint | undefined,
  ): Promise<void> {
    const isListed = new Set(ids);
    const [seenNumbers, seenIds] = [new Set<number>(), new Set<string>()];
    const suspected: Suspicion[] = [];
    for await (const { number, item } of items) {
      // Of a checkpoint that was removed.
      if (number > last.number && newer && number < newer.first.number) continue;
      const index = number - first.number;
      const expected = ids[index];
      const id = item?.id ?? (expected || String(number));
      const place = { number, id, time: item?.time ?? time };
      const isInserted = !isListed.has(id) || seenIds.has(id);
      const isSame = expected === id && item && digestText(item) === digests[index];
      if (isInserted) report({ kind: 'inserted', ...place });
      else if (!isSame) report({ kind: 'changed', ...place });
      else {
        learn(item, number);
        noteCheckpoint(item, number, checkpoint - 1);
        if (item.digests)
          suspected.push({ kind: 'changed', account: item.account ?? '', ...place });
      }
      seenNumbers.add(number);
      seenIds.add(id);
    }
    for (const [index, id] of ids.entries()) {
      const number = first.number + index;
      if (id === '' ? !seenNumbers.has(number) : !seenIds.has(id))
        suspected.push({ kind: 'removed', number, id: id || checkpointId, time });
    }
    suspected.forEach(suspect);
  }
}

function digestText(item: SealedItem): string | undefined {
  try {
    return itemDigest(item);
  } catch {
    return undefined;
  }
}

function follows(newer: Checkpoint, older: Checkpoint): boolean {
  return (
    newer.log === older.log &&
    newer.checkpoint === older.checkpoint + 1 &&
    newer.previous === older.head &&
    newer.first.number === older.last.number + 1
  );
}

/** Whether the checkpoint is older than everything that was read, so that nothing can be said about it. */
function isOlder(kept: Checkpoint, oldest: Checkpoint | undefined): boolean {
  return (
    oldest !== undefined &&
    kept.log === oldest.log &&
    kept.checkpoint < oldest.checkpoint &&
    kept.last.number < oldest.first.number
  );
}

/** Checkpoints before the oldest one that was read, if this one began the chain anew. `unread` are those that items have. */
function removedCheckpoints(
  oldest: Checkpoint,
  unread: Iterable<{ number: number; checkpoint: Checkpoint }>,
): Finding[] {
  const removed = [...unread].filter(
    ({ checkpoint: { last } }) => last.number >= oldest.first.number,
  );
  const found = removed.map(({ number, checkpoint: { id, time } }) => ({ number, id, time }));
  const { checkpoint, previous, first, id, time } = oldest;
  if (checkpoint > 1 && previous === '') found.push({ number: first.number - 1, id, time });
  return found.map((place) => ({ kind: 'removed', ...place }));
}

function oldestOf<One extends { number: number }>(found: readonly One[]): One[] {
  return found.toSorted((one, other) => one.number - other.number).slice(0, MAX_FINDINGS);
}
