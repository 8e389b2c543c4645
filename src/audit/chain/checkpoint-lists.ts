// The lists beside checkpoints, and how a list is made.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Store } from '../../store/store.ts';
import type { AuditItem } from '../audit.ts';
import {
  auditMark,
  type NumberedSealedItem,
  readAuditItems,
  readSealedAfter,
} from '../audit-log.ts';
import { searchAudit } from '../audit-search.ts';
import {
  chainHead,
  type Checkpoint,
  type CheckpointList,
  type IsSigned,
  readCheckpoint,
} from './checkpoint.ts';
import { itemDigest } from './sealed-item.ts';
import { isOther, type StoredDigests, type WrittenItem } from './stored-digests.ts';

const listKey = (checkpoint: number) => `audit-checkpoint:${checkpoint}`;

export type ListedCheckpoint = { checkpoint: Checkpoint; list: CheckpointList };

/** The mark of the log names its newest checkpoint, so that one that a failover or a restored backup took away is never continued. */
export type CheckpointMark = { checkpoint: number; id: string };

export function markOf({ checkpoint, id }: CheckpointMark): string {
  return `${checkpoint} ${id}`;
}

/** Undefined before the first checkpoint. */
export async function readCheckpointMark(store: Store): Promise<CheckpointMark | undefined> {
  const [checkpoint, id] = (await auditMark(store)).split(' ');
  return id === undefined ? undefined : { checkpoint: Number(checkpoint), id };
}

export function saveList(store: Store, checkpoint: number, list: CheckpointList): Promise<void> {
  return store.set(listKey(checkpoint), list, Infinity);
}

export function deleteList(store: Store, checkpoint: number): Promise<void> {
  return store.delete(listKey(checkpoint));
}

export async function readList(
  store: Store,
  number: number,
): Promise<ListedCheckpoint | undefined> {
  const list = (await store.get<CheckpointList>(listKey(number)))?.value;
  const checkpoint = list && readCheckpoint(list.jws);
  return checkpoint && { checkpoint, list };
}

/**
 * The number of the oldest checkpoint that has a list and is not older than `since` (seconds since the epoch); `newest` if there is none. Lists are
 * deleted in order.
 */
export async function oldestList(store: Store, newest: number, since = -Infinity): Promise<number> {
  let [below, found] = [0, newest];
  while (found - below > 1) {
    const middle = Math.floor((below + found) / 2);
    const listed = await readList(store, middle);
    if (listed && Date.parse(listed.checkpoint.time) / 1000 >= since) found = middle;
    else below = middle;
  }
  return found;
}

const PAGE_ITEMS = 100;

/** Items with a number from `first` to `last`, in pages, so that other work goes on. */
export async function* sealedItems(
  store: Store,
  first: number,
  last: number,
): AsyncGenerator<NumberedSealedItem> {
  for (let after = first - 1; after < last;) {
    const limit = Math.min(PAGE_ITEMS, last - after);
    const page = await readSealedAfter(store, after, limit);
    for (const item of page) {
      if (item.number > last) return;
      yield item;
    }
    if (page.length < limit) return;
    // SQLite answers at once, so that reading on would block the process.
    await nextTurn();
    after = page.at(-1)?.number ?? last;
  }
}

/** The newest item of each write that is `known` and has items from `first` to `last`. */
function writesIn(first: number, last: number, known: StoredDigests): Map<number, WrittenItem> {
  const writes = new Map<number, WrittenItem>();
  for (let number = first; number <= last; number += 1) {
    const newest = known.get(number)?.newest;
    if (newest) writes.set(newest.number, newest);
  }
  return writes;
}

/** Whether the store has what is `known` from `first` to `last`: a failover loses the newest items, and others may give their numbers again. */
async function areStored(
  store: Store,
  first: number,
  last: number,
  known: StoredDigests,
): Promise<boolean> {
  const writes = [...writesIn(first, last, known).values()];
  for (let from = 0; from < writes.length; from += PAGE_ITEMS) {
    const page = writes.slice(from, from + PAGE_ITEMS);
    const found = await readAuditItems(
      store,
      page.map(({ number }) => number),
    );
    const stored = new Map(found.map((one) => [one.number, one]));
    known.lost ??= page.find((written) => {
      const one = stored.get(written.number);
      return one !== undefined && isOther(written, one);
    });
    // One that was trimmed meanwhile says nothing.
    if (known.lost || stored.size < page.length) return false;
    await nextTurn();
  }
  return true;
}

/** What a checkpoint from `first` to `last` says about the items in the store. Those that are `known` are not read. */
export async function listItems(
  store: Store,
  first: number,
  last: number,
  known?: StoredDigests,
): Promise<{ ids: string[]; digests: string[]; epoch: string; unreadable: number | undefined }> {
  const count = last - first + 1;
  const [ids, digests] = [Array<string>(count).fill(''), Array<string>(count).fill('')];
  let epoch = '';
  let unreadable: number | undefined;
  if (known && !(await areStored(store, first, last, known))) known.clear();
  const hashed = new Map<string, string>();
  const noteFrom = async (from: number, to: number) => {
    for await (const { number, item, epoch: own } of sealedItems(store, from, to)) {
      epoch = own;
      if (!item) unreadable ??= number;
      if (!item) continue;
      ids[number - first] = item.id ?? '';
      digests[number - first] = itemDigest(item, item, hashed);
    }
  };
  for (let number = first; number <= last;) {
    const stored = known?.get(number);
    if (stored) {
      ({ epoch } = stored);
      ids[number - first] = stored.id;
      digests[number - first] = stored.digest;
      number += 1;
      continue;
    }
    let end = number;
    while (end < last && !known?.get(end + 1)) end += 1;
    await noteFrom(number, end);
    number = end + 1;
  }
  return { ids, digests, epoch, unreadable };
}

const SEARCHED_CHECKPOINTS = 10;

/** The newest items `checkpoint`, newest first. */
async function checkpointItems(store: Store): Promise<AuditItem[]> {
  const filters = { event: 'checkpoint' };
  return (await searchAudit({ store }, { filters, limit: SEARCHED_CHECKPOINTS })).items;
}

/** The newest checkpoint that an item has and one of the keys signed, whatever the mark of the log says. Nobody signs the index, nor its order. */
export async function newestSigned(
  store: Store,
  isSigned: IsSigned,
): Promise<Checkpoint | undefined> {
  const items = (await checkpointItems(store)).map(({ jws = '' }) => ({
    jws,
    checkpoint: readCheckpoint(jws),
  }));
  const numberOf = ({ checkpoint }: (typeof items)[number]) => checkpoint?.checkpoint ?? 0;
  for (const one of items.toSorted((first, second) => numberOf(second) - numberOf(first)))
    if (await isSigned(one.jws)) return one.checkpoint;
  return undefined;
}

/** The checkpoint that the mark names. A process that was killed may have left it without its list, which is then made again. */
export async function markedCheckpoint(
  store: Store,
  { checkpoint: number, id }: CheckpointMark,
): Promise<ListedCheckpoint | undefined> {
  const found = await readList(store, number);
  if (found?.checkpoint.id === id) return found;
  const items = await checkpointItems(store);
  const { jws = '' } = items.find((item) => item.id === id) ?? {};
  const checkpoint = readCheckpoint(jws);
  if (!checkpoint) return undefined;
  const { first, last } = checkpoint;
  const { ids, digests } = await listItems(store, first.number, last.number);
  if (chainHead(checkpoint.previous, digests) !== checkpoint.head) return undefined;
  const list = { jws, ids, digests };
  await saveList(store, number, list);
  return { checkpoint, list };
}
