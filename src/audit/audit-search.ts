// Finds items of the audit log. The index has one row of fixed size for each item, which is read from where a page begins until the page is
// full: a million rows take a moment, and only items whose rows match are read and decrypted.
import { completedBy, numberAt, rowCount, termAt, timeAt } from '../store/log-rows.ts';
import { type LogBlock, LOG_PARTS, type LogPart, type Store } from '../store/store.ts';
import type { AuditItem } from './audit.ts';
import type { AuditBlocks, FoundBlocks, WantedRows } from './audit-blocks.ts';
import {
  auditIndex,
  readAuditItems,
  readEarlierAudit,
  TERM_KINDS,
  type TermKind,
  termsOf,
} from './audit-log.ts';

export type AuditFilters = Partial<Record<TermKind, string | undefined>> & {
  /** Seconds since the epoch: `since` is included, `until` is not. */
  since?: number | undefined;
  until?: number | undefined;
};

export type AuditSearch = {
  filters?: AuditFilters;
  limit: number;
  /** `next` of an earlier page in the same order. */
  after?: string | undefined;
  /** The default. */
  newestFirst?: boolean;
};

/** `unreadable`: how many items could not be decrypted on the way. They may match. Absent if there are none. */
export type AuditFound = {
  items: AuditItem[];
  next?: string | undefined;
  unreadable?: number | undefined;
};

/** A page ends with the item that exceeds this size (approximate). */
const MAX_PAGE_BYTES = 1024 * 1024;
/** Rows read for one page. Bounds the response time if few match; the page may then be empty. */
export const MAX_ROWS_READ = 2_000_000;
/** In rows: of an item that is read in vain, because it cannot be decrypted, or because earlier versions wrote it without an index. */
const ITEM_COST = MAX_ROWS_READ / 1000;

/** With `auditBlocks`, the index of a large log need not be read. */
export type Searched = { store: Store; auditBlocks?: AuditBlocks | undefined };

/** A call of a recorded level and its end are one item. */
export async function searchAudit(
  searched: Searched,
  { filters = {}, limit, after, newestFirst = true }: AuditSearch,
): Promise<AuditFound> {
  const items: AuditItem[] = [];
  let [last, bytes, cost]: [string | undefined, number, number] = [undefined, 0, 0];
  let unreadable = 0;
  const page = (next?: string): AuditFound => ({
    items,
    ...(next === undefined ? {} : { next }),
    ...(unreadable > 0 ? { unreadable } : {}),
  });
  const found = matchingAudit(searched, { filters, after, newestFirst, atATime: limit });
  for await (const candidate of found) {
    if (items.length === limit || bytes > MAX_PAGE_BYTES || cost >= MAX_ROWS_READ)
      return page(last);
    const { cursor, item } = candidate;
    last = cursor;
    if (candidate.isUnreadable) unreadable += 1;
    cost += item ? 0 : candidate.cost;
    if (!item) continue;
    items.push(item);
    bytes += JSON.stringify(item).length;
  }
  return page();
}

/** Items that match, and between them how far the log was read and what that cost. */
export async function* matchingAudit(
  searched: Searched,
  { filters, after, newestFirst, atATime }: Matching,
): AsyncGenerator<Candidate> {
  const order = { after, newestFirst };
  for await (const candidate of candidates(searched, { filters, atATime, ...order }))
    yield matchingOnly(candidate, filters);
}

/** Rows that match, from the newest one on. The log was read up to `cursor`, in so many rows. */
export async function* matchingRows(
  searched: Searched,
  filters: AuditFilters,
): AsyncGenerator<{ found: Found[]; cursor: string; rows: number }> {
  const all = { filters, newestFirst: true, start: undefined };
  for await (const { reached, ...rest } of scan(searched, all))
    yield { ...rest, cursor: cursorOf(reached) };
}

/** The items of such rows, as `matchingAudit` yields them. */
export async function readRows(
  { store }: Searched,
  found: readonly Found[],
  filters: AuditFilters,
): Promise<Candidate[]> {
  return (await readFound(store, found)).map(({ number, ...read }) =>
    matchingOnly({ cursor: cursorOf(number), cost: ITEM_COST, ...read }, filters),
  );
}

/** Items that match and that earlier versions wrote without an index, the newest first. They are older than all others. */
export async function* matchingEarlier(
  { store }: Searched,
  filters: AuditFilters,
): AsyncGenerator<Candidate> {
  for await (const candidate of earlier(store, { newestFirst: true, after: undefined }))
    yield matchingOnly(candidate, filters);
}

function matchingOnly(candidate: Candidate, filters: AuditFilters): Candidate {
  const read = candidate.item && asRead(candidate.item);
  return { ...candidate, item: read && matches(read, filters) ? read : undefined };
}

/** Earlier versions stored `allowed`. */
function asRead(item: AuditItem): AuditItem {
  return item.event === 'call' && item.outcome === 'allowed'
    ? { ...item, outcome: 'answered' }
    : item;
}

/** Hashes in rows can be equal by chance, and times in them are whole seconds. */
function matches(item: AuditItem, { since = -Infinity, until = Infinity, ...terms }: AuditFilters) {
  const time = Date.parse(item.time) / 1000;
  const values = termsOf(item);
  return (
    time >= since &&
    time < until &&
    TERM_KINDS.every((kind) => terms[kind] === undefined || terms[kind] === values[kind])
  );
}

/** The list continues behind `cursor`. `cost` is in rows. */
export type Candidate = {
  cursor: string;
  item: AuditItem | undefined;
  cost: number;
  isUnreadable?: boolean;
};
type Order = Required<Pick<AuditSearch, 'newestFirst'>> & Pick<AuditSearch, 'after'>;
/** `atATime`: how many items are read and decrypted together, if so many match. */
type Matching = Order & { filters: AuditFilters; atATime: number };

/** Cursors have 32 digits. Those of earlier versions, which begin with 0, are older than all numbers. */
const CURSOR_DIGITS = 32;

export function cursorOf(number: number): string {
  return `1${String(number).padStart(CURSOR_DIGITS - 1, '0')}`;
}

async function* candidates(
  searched: Searched,
  { filters, atATime, ...order }: Matching,
): AsyncGenerator<Candidate> {
  const { store } = searched;
  const { after, newestFirst } = order;
  const isEarlier = after?.startsWith('0') === true;
  if (!newestFirst && (after === undefined || isEarlier)) yield* earlier(store, order);
  if (!newestFirst || !isEarlier) {
    const start = after === undefined || isEarlier ? undefined : Number(after.slice(1));
    yield* indexed(searched, { filters, atATime, newestFirst, start });
  }
  if (newestFirst) yield* earlier(store, { newestFirst, after: isEarlier ? after : undefined });
}

const EARLIER_ITEMS = 100;

async function* earlier(store: Store, { after, newestFirst }: Order): AsyncGenerator<Candidate> {
  for (let last = after; ;) {
    const range = { limit: EARLIER_ITEMS, newestFirst, ...(last ? { after: last } : {}) };
    const batch = await readEarlierAudit(store, range);
    for (const { id, item } of batch)
      yield { cursor: id, item, cost: ITEM_COST, isUnreadable: item === undefined };
    last = batch.at(-1)?.id;
    if (batch.length < EARLIER_ITEMS) return;
  }
}

type Scanned = { filters: AuditFilters; newestFirst: boolean; start: number | undefined };
const MAX_AT_A_TIME = 100;

async function* indexed(
  searched: Searched,
  { atATime, ...scanned }: Scanned & { atATime: number },
): AsyncGenerator<Candidate> {
  const { store } = searched;
  for await (const { found, reached, rows } of scan(searched, scanned)) {
    const size = Math.min(atATime, MAX_AT_A_TIME);
    for (let from = 0; from < found.length; from += size)
      for (const { number, item, isUnreadable } of await readFound(
        store,
        found.slice(from, from + size),
      ))
        yield { cursor: cursorOf(number), item, cost: ITEM_COST, isUnreadable };
    if (rows > 0) yield { cursor: cursorOf(reached), item: undefined, cost: rows };
  }
}

/** A row that matches. Of a log that lost its end, a later item may get the number of an earlier one, but not its time. */
export type Found = { number: number; completedBy: number; time: number };

/** The items in the order of `found`, calls with how they ended. */
async function readFound(
  store: Store,
  found: readonly Found[],
): Promise<{ number: number; item: AuditItem | undefined; isUnreadable: boolean }[]> {
  const numbers = found.flatMap((one) => [one.number, one.completedBy].filter((n) => n > 0));
  const read = new Map(
    (await readAuditItems(store, numbers)).map(({ number, item }) => [number, item]),
  );
  return found.map(({ number, completedBy: end }) => {
    const item = read.get(number);
    // One that was trimmed meanwhile is not there.
    const isUnreadable = read.has(number) && item === undefined;
    return { number, item: item && withEnd(item, read.get(end)), isUnreadable };
  });
}

/** The call as it ended. */
function withEnd(call: AuditItem, end: AuditItem | undefined): AuditItem {
  if (!end) return call;
  const { outcome, reason, toolError, ms, bytesOut } = end;
  const members = Object.entries({ outcome, reason, toolError, ms, bytesOut });
  return {
    ...call,
    ...Object.fromEntries(members.filter(([, value]) => value !== undefined)),
  };
}

/** Numbers that match, in order. Everything before `reached` was read, in so many rows. */
type Scan = { found: Found[]; reached: number; rows: number };

/** How far a part was read. `next` is where to go on. */
type Part = { part: LogPart; next: number; isDone: boolean; blocks: number };

const FIRST_BLOCKS = 2;
const MAX_BLOCKS = 128;
/** The clocks of processes differ, and may jump. */
const CLOCK_SKEW_SECONDS = 86_400;

/** The index of calls that need not be recorded has nothing else (`isInPart`), and is the largest. */
function mayHave(part: LogPart, { event }: AuditFilters): boolean {
  return part === 'lasting' || event === undefined || event === 'call';
}

/** Reads the parts of the index side by side, first a little and then more at a time. */
async function* scan(
  { store, auditBlocks }: Searched,
  { filters, newestFirst, start }: Scanned,
): AsyncGenerator<Scan> {
  const wanted = wantedRows(store, filters);
  const isMatch = matcher(wanted);
  await auditBlocks?.refresh();
  const isBehind = (number: number) =>
    start === undefined || (newestFirst ? number < start : number > start);
  const isFirst = (one: number, other: number) => (newestFirst ? one > other : one < other);
  const first = start ?? (newestFirst ? Number.MAX_SAFE_INTEGER : 0);
  const parts: Part[] = LOG_PARTS.filter((part) => mayHave(part, filters)).map((part) => ({
    part,
    next: first,
    isDone: false,
    blocks: FIRST_BLOCKS,
  }));
  if (!newestFirst) await Promise.all(parts.map((part) => beginAtBlock(store, part)));
  let pending: Found[] = [];
  for (;;) {
    const open = parts.filter(({ isDone }) => !isDone);
    const [behind] = open.toSorted((one, other) => (isFirst(one.next, other.next) ? -1 : 1));
    if (!behind) break;
    const { next } = behind;
    const listed = auditBlocks?.find(wanted, {
      part: behind.part,
      from: next,
      newestFirst,
      limit: behind.blocks,
    });
    const blocks = listed
      ? await readListed(store, behind, listed, newestFirst)
      : await readOn(store, behind, newestFirst);
    // Blocks that are joined meanwhile have rows of others.
    const isUnread = (number: number) =>
      newestFirst
        ? number < next && (number >= behind.next || behind.isDone)
        : number >= next && (number < behind.next || !listed);
    let [rows, isRecent] = [0, false];
    for (const { rows: block } of blocks) {
      const count = rowCount(block);
      rows += count;
      for (let index = 0; index < count; index += 1) {
        isRecent ||= !isPast(timeAt(block, index), filters, newestFirst);
        const number = numberAt(block, index);
        if (isMatch(block, index) && isBehind(number) && isUnread(number))
          pending.push({
            number,
            completedBy: completedBy(block, index),
            time: timeAt(block, index),
          });
      }
    }
    if (blocks.length > 0 && !isRecent) behind.isDone = true;
    pending.sort((one, other) => (isFirst(one.number, other.number) ? -1 : 1));
    const left = parts.filter(({ isDone }) => !isDone).map(({ next }) => next);
    if (left.length === 0) break;
    const reached = newestFirst ? Math.max(...left) : Math.min(...left);
    const isReached = ({ number }: Found) => (newestFirst ? number >= reached : number < reached);
    yield {
      found: pending.filter(isReached),
      reached: newestFirst ? reached : reached - 1,
      rows,
    };
    pending = pending.filter((found) => !isReached(found));
  }
  const end = newestFirst ? 0 : Number.MAX_SAFE_INTEGER;
  yield { found: pending, reached: pending.at(-1)?.number ?? end, rows: 0 };
}

/** Blocks are found by their first number. */
async function beginAtBlock(store: Store, part: Part): Promise<void> {
  const range = { part: part.part, before: part.next + 1, limit: 1 };
  const [block] = await auditIndex.blocks(store, range);
  if (block) part.next = block.first;
}

async function readOn(store: Store, part: Part, newestFirst: boolean): Promise<LogBlock[]> {
  const { part: name, next, blocks: limit } = part;
  const range = newestFirst ? { before: next } : { after: next };
  const blocks = await auditIndex.blocks(store, { part: name, limit, ...range });
  const last = blocks.at(-1)?.first ?? next;
  part.next = newestFirst ? last : last + 1;
  part.isDone = blocks.length < limit;
  part.blocks = Math.min(2 * limit, MAX_BLOCKS);
  return blocks;
}

async function readListed(
  store: Store,
  part: Part,
  { runs, next, isEnd }: FoundBlocks,
  newestFirst: boolean,
): Promise<LogBlock[]> {
  const read = await auditIndex.blocks(store, {
    part: part.part,
    runs: runs.map(({ newest, count }) => ({ before: newest + 1, limit: count })),
  });
  part.next = next;
  part.isDone = isEnd;
  part.blocks = Math.min(2 * part.blocks, MAX_BLOCKS);
  const blocks = new Map(read.map((block) => [block.first, block]));
  return [...blocks.values()].toSorted((one, other) =>
    newestFirst ? other.first - one.first : one.first - other.first,
  );
}

/** Whether everything that follows is outside the wanted time. */
function isPast(
  time: number,
  { since = -Infinity, until = Infinity }: AuditFilters,
  newestFirst: boolean,
): boolean {
  return newestFirst ? time < since - CLOCK_SKEW_SECONDS : time > until + CLOCK_SKEW_SECONDS;
}

function wantedRows(
  store: Store,
  { since = -Infinity, until = Infinity, ...values }: AuditFilters,
): WantedRows {
  const terms = TERM_KINDS.flatMap((kind) => {
    const value = values[kind];
    return value === undefined ? [] : [{ kind, hash: auditIndex.term(store, kind, value) }];
  });
  return { since: Math.floor(since), until, terms };
}

function matcher({ since, until, terms }: WantedRows): (block: Buffer, index: number) => boolean {
  const wanted = terms.map(({ kind, hash }) => ({ term: TERM_KINDS.indexOf(kind), hash }));
  return (block, index) => {
    const time = timeAt(block, index);
    if (time < since || time > until) return false;
    return wanted.every(({ term, hash }) => termAt(block, index, term) === hash);
  };
}
