// Reads what an export says about the time after the backup. Reads the file once, a little at a time.
import { type FileHandle, open } from 'node:fs/promises';
import { type AuditItem } from '../audit/audit.ts';
import {
  lastAuditNumber,
  type NumberedItem,
  readAuditAfter,
  readAuditItems,
} from '../audit/audit-log.ts';
import type { ExportHeader } from '../audit/chain/export.ts';
import { openRanges, type Range } from '../audit/chain/ranges.ts';
import { LIST_START, linesFrom, readHeader } from '../audit/chain/verify-export.ts';
import { isObject, membersOf } from '../json-values.ts';
import type { Store } from '../store/store.ts';
import { subjectsOf } from './decisions.ts';
import { collectHistories, type Connected, type History } from './history.ts';
import { BY_RESTORE } from './subjects/subject.ts';
import { RestoreRefused } from './refused.ts';

/** A store as it was restored, and an export of the log that it had. */
export type ReadExport = {
  histories: History[];
  connected: Connected[];
  /** The newest item that the store and the export share, and its epoch. */
  base: Place;
  /** The last item of the export. */
  last: ExportedItem;
  /** What is wrong with the file, although it was used. */
  problems: string[];
};

type Place = { number: number; epoch: string };
type ExportedItem = AuditItem & Place;

export type ReadOptions = {
  issuer: string;
  /** Part of the file that was read, from 0 to 1. */
  onProgress: (part: number) => void;
};

/** Also items that the store has already may have been written before what they are about. */
const OVERLAP_SECONDS = 600;
const AT_A_TIME = 500;

/** Throws RestoreRefused. Writes nothing. */
export async function readExport(
  file: string,
  store: Store,
  { issuer, onProgress }: ReadOptions,
): Promise<ReadExport> {
  const handle = await openFile(file);
  try {
    const { size } = await handle.stat();
    const problems: string[] = [];
    const progress = (at: number) => onProgress(size === 0 ? 1 : at / size);
    const items = itemsIn(handle, { issuer, problems, onProgress: progress });
    return { ...(await compare(items, store, problems)), problems };
  } finally {
    await handle.close();
  }
}

async function openFile(file: string): Promise<FileHandle> {
  try {
    return await open(file);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new RestoreRefused(`the export cannot be read: ${reason}`);
  }
}

type Reading = Omit<ReadOptions, 'onProgress'> & {
  problems: string[];
  onProgress: (at: number) => void;
};

async function* itemsIn(
  handle: FileHandle,
  { issuer, problems, onProgress }: Reading,
): AsyncGenerator<ExportedItem> {
  let count = 0;
  for await (const { start, text } of linesFrom(handle, 0)) {
    count += 1;
    if (count === 1) {
      requireWhole(readHeader(text), issuer);
      continue;
    }
    if (text.startsWith(LIST_START)) continue;
    const item = parsed(text);
    if (item) yield item;
    else problems.push(`line ${count} is not complete: its item is not replayed`);
    onProgress(start);
  }
  if (count === 0) requireWhole(undefined, issuer);
}

function requireWhole(header: ExportHeader['export'] | undefined, issuer: string): void {
  if (!header)
    throw new RestoreRefused(
      'the file does not begin as an export does: make one with gatehouse audit export',
      { isUsage: true },
    );
  if (Object.keys(membersOf(header.filters)).length > 0)
    throw new RestoreRefused(
      'the export has filters, so revocations may be missing: make one without other options than --since',
      { isUsage: true },
    );
  if (header.issuer !== issuer)
    throw new RestoreRefused(
      `the export is of ${String(header.issuer)}, and the settings are those of ${issuer}: nothing was applied`,
    );
}

function parsed(text: string): ExportedItem | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value)) return undefined;
    const { number, epoch, event, time } = value;
    const isItem =
      typeof number === 'number' &&
      [epoch, event, time].every((member) => typeof member === 'string');
    return isItem ? (value as ExportedItem) : undefined;
  } catch {
    return undefined;
  }
}

async function compare(
  items: AsyncIterable<ExportedItem>,
  store: Store,
  problems: string[],
): Promise<Omit<ReadExport, 'problems'>> {
  const newest = await lastAuditNumber(store);
  const histories = collectHistories();
  const gaps = findGaps();
  /** Items that the store has, of the last ten minutes. */
  let overlap: ExportedItem[] = [];
  let shared: ExportedItem | undefined;
  let base: Place | undefined;
  let last: ExportedItem | undefined;
  const takeLater = (later: readonly ExportedItem[]) => {
    for (const item of later) histories.add(item, { isOwn: false });
  };
  for await (const batch of inBatches(items)) {
    const first = last === undefined ? batch[0] : undefined;
    if (first) await requireContinued(store, first, newest);
    last = batch.at(-1) ?? last;
    for (const item of batch) gaps.note(item);
    if (base) {
      takeLater(batch);
      continue;
    }
    const count = await countShared(store, batch, newest);
    const known = batch.slice(0, count);
    shared = known.at(-1) ?? shared;
    if (shared) overlap = withinOverlap([...overlap, ...known], shared);
    if (count === batch.length) continue;
    const firstLater = batch[count];
    base = shared ?? { number: (firstLater?.number ?? 1) - 1, epoch: '' };
    takeLater(overlap);
    takeLater(batch.slice(count));
  }
  if (!last) throw new RestoreRefused('the export has no whole item: nothing was applied');
  if (!base) {
    if (last.number < newest && !(await beginsEpoch(store, last.number + 1)))
      throw new RestoreRefused(
        `the export ends with item ${last.number} (${last.time}), and the store has items up to ${newest}: nothing in it came after the backup, so nothing was applied`,
      );
    base = last;
    takeLater(overlap);
  }
  const { number } = base;
  problems.push(...gaps.unexplained(number));
  for await (const item of itemsAfter(store, number))
    if (item.by !== BY_RESTORE) histories.add(item, { isOwn: true });
  const epoch = base.epoch || ((await nearestItem(store, number))?.epoch ?? '');
  return {
    histories: histories.all(),
    connected: histories.connected(),
    base: { number, epoch },
    last,
  };
}

/** Throws RestoreRefused if items between the newest of the store and the first of the export are missing. */
async function requireContinued(store: Store, first: ExportedItem, newest: number): Promise<void> {
  if (newest === 0)
    throw new RestoreRefused('the store has no audit log: restore the backup first');
  if (first.number > newest + 1)
    throw new RestoreRefused(
      `the store has items up to ${newest}, and the export begins with ${first.number} (${first.time}): use an export that begins before the backup. Nothing was applied`,
    );
  if (first.number === newest + 1 || (await countShared(store, [first], newest)) === 1) return;
  // After a replay, the store has items of its own with the numbers of lost ones.
  if (await beginsEpoch(store, first.number)) return;
  throw new RestoreRefused(
    `item ${first.number} of the export is not the one that the store has: use an export of this store that begins before the backup. Nothing was applied`,
  );
}

/** How many items at the beginning are those that the store has. One that it has trimmed counts as those before it. */
async function countShared(
  store: Store,
  items: readonly ExportedItem[],
  newest: number,
): Promise<number> {
  const within = items.filter(({ number }) => number <= newest);
  const isSame = (item: ExportedItem, found: NumberedItem | undefined) =>
    found === undefined ||
    (found.epoch === item.epoch && (found.item === undefined || found.item.id === item.id));
  const last = within.at(-1);
  if (!last) return 0;
  const [found] = await readAuditItems(store, [last.number]);
  if (found && isSame(last, found)) return within.length;
  const numbers = within.map(({ number }) => number);
  const stored = new Map((await readAuditItems(store, numbers)).map((one) => [one.number, one]));
  const other = within.findIndex((item) => !isSame(item, stored.get(item.number)));
  return other < 0 ? within.length : other;
}

/** Whether the items of the store have another epoch from this number on. */
async function beginsEpoch(store: Store, number: number): Promise<boolean> {
  const [at] = await readAuditAfter(store, number - 1, 1);
  const before = await nearestItem(store, number - 1);
  return at !== undefined && before?.epoch !== at.epoch;
}

/** The stored item with this number, or the one before it if it was trimmed. */
async function nearestItem(store: Store, number: number): Promise<NumberedItem | undefined> {
  for (let width = 1; ; width *= 2) {
    const from = Math.max(0, number - width);
    const found = (await readAuditAfter(store, from, Math.min(width, AT_A_TIME))).findLast(
      (one) => one.number <= number,
    );
    if (found || from === 0) return found;
  }
}

async function* itemsAfter(store: Store, number: number): AsyncGenerator<AuditItem> {
  for (let after = number; ;) {
    const page = await readAuditAfter(store, after, AT_A_TIME);
    for (const { item } of page) if (item) yield item;
    if (page.length < AT_A_TIME) return;
    after = page.at(-1)?.number ?? after;
  }
}

function withinOverlap(items: readonly ExportedItem[], { time }: ExportedItem): ExportedItem[] {
  const start = Date.parse(time) - OVERLAP_SECONDS * 1000;
  return items.filter((item) => Date.parse(item.time) >= start && subjectsOf(item).length > 0);
}

async function* inBatches(items: AsyncIterable<ExportedItem>): AsyncGenerator<ExportedItem[]> {
  let batch: ExportedItem[] = [];
  for await (const item of items) {
    batch.push(item);
    if (batch.length < AT_A_TIME) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

/** Calls are trimmed where there are too many, and the log says which. */
function findGaps() {
  const gaps: Range[] = [];
  const trimmed = openRanges();
  let before: number | undefined;
  return {
    note({ number, event, ranges = [] }: ExportedItem) {
      if (before !== undefined && number > before + 1) gaps.push([before + 1, number - 1]);
      before = number;
      if (event === 'audit_trimmed') trimmed.add(ranges);
    },
    /** Of items after this number. */
    unexplained(base: number): string[] {
      return gaps
        .filter(([first, last]) => trimmed.gapBelow(last + 1) >= Math.max(first, base + 1))
        .map(([first, last]) => `the items ${first} to ${last} are missing: they are not replayed`);
    },
  };
}
