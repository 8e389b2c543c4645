// The audit log in the store: what is appended, read by number, and found by its index.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type {
  LogCompletion,
  LogEntry,
  LogMark,
  LogPart,
  NewLogEntry,
  Store,
} from '../store/store.ts';
import type { AuditItem } from './audit.ts';
import { itemDigest, sealed, type SealedItem, unsealed } from './chain/sealed-item.ts';
import type { StoredDigests } from './chain/stored-digests.ts';

const LOG = 'audit:log';
/** The stream that earlier versions wrote. Its entries have no number. */
const EARLIER = 'audit:all';

/** What an item can be found by, in the order of the terms in its row. The first one may change when a call ends. */
export const TERM_KINDS = [
  'outcome',
  'event',
  'account',
  'client',
  'connector',
  'tool',
  'grant',
] as const;
export type TermKind = (typeof TERM_KINDS)[number];

/** The values of an item by which it is found. */
export function termsOf(item: AuditItem): Record<TermKind, string | undefined> {
  return {
    outcome: item.outcome,
    event: item.event,
    account: item.account,
    client: item.clientId,
    connector: item.connector,
    tool: item.tool ?? item.method,
    grant: item.grantId,
  };
}

export function termText(kind: TermKind, value: string): string {
  return `${kind}:${value}`;
}

export const OUTCOME_TERM = TERM_KINDS.indexOf('outcome');
/** A connection, or what takes its place for machines and minted tokens: where calls are too many, the one with the most loses first. */
export const OWNER_TERM = TERM_KINDS.indexOf('grant');

/** Only calls may be in the index of calls that need not be recorded. A call that was stored before it was made is recorded. */
export function isInPart({ event, outcome }: AuditItem, part: LogPart): boolean {
  return part === 'lasting' || (event === 'call' && outcome !== 'started');
}

/** The time that the row of an item has: seconds since the epoch. */
export function timeOfRow({ time }: AuditItem): number {
  return Math.floor(Date.parse(time) / 1000);
}

/** An item to append, which gets its epoch and number then. `completes` is the call that it ends. */
export type NewAuditItem = {
  item: AuditItem;
  part: LogPart;
  completes?: StoredPlace | undefined;
};

/** Where an item is stored. */
export type StoredPlace = Pick<AuditItem, 'number' | 'epoch'>;

/** A write that the store may not know any more. It is not among the items up to the number `searched`. */
export type LateWrite = { searched: number };

export type AppendOptions = {
  token?: string | undefined;
  isAgain?: boolean | undefined;
  late?: LateWrite | undefined;
  digests?: StoredDigests | undefined;
};

/**
 * Appends in one write, and returns the items with their numbers. `isAgain`: an earlier write with this token may have stored them, with other
 * salts than these, so that their digests are not known. `late`: it is looked for first.
 */
export async function appendAudit(
  store: Store,
  added: readonly NewAuditItem[],
  { token, isAgain = false, late, digests }: AppendOptions = {},
): Promise<AuditItem[]> {
  if (added.length === 0) return [];
  const entries = logEntries(added);
  const stored = late && (await findStored(store, entries[0]?.value.id, late));
  const { first, epoch } = stored ?? (await store.appendLog<AuditItem>(LOG, entries, token));
  if (digests?.isUsed && !isAgain) {
    const hashed = new Map<string, string>();
    digests.add({
      first,
      epoch,
      ids: entries.map(({ value }) => value.id ?? ''),
      digests: entries.map(({ value }, index) =>
        itemDigest(value, { epoch, number: first + index }, hashed),
      ),
    });
  }
  // Not copied: of many items, copies live long enough to cost more than the rest of their storing.
  return added.map(({ item }, index) => Object.assign(item, { epoch, number: first + index }));
}

const MAX_SEARCHED = 100_000;
const SEARCHED_AT_A_TIME = 200;

/** Looks for an item among the newest ones, from the newest to the oldest. */
async function findStored(
  store: Store,
  id: string | undefined,
  late: LateWrite,
): Promise<{ first: number; epoch: string } | undefined> {
  const last = await store.lastInLog(LOG);
  const from = Math.max(late.searched, last - MAX_SEARCHED);
  for (let end = last; end > from; end -= SEARCHED_AT_A_TIME) {
    const after = Math.max(from, end - SEARCHED_AT_A_TIME);
    const found = await store.readLog<AuditItem>(LOG, { after, limit: end - after });
    const one = found.find(({ value }) => value?.id === id);
    if (one) return { first: one.number, epoch: one.epoch };
    // SQLite answers at once.
    await nextTurn();
  }
  late.searched = last;
  return undefined;
}

/** Appends an item and replaces the mark of the log. Undefined if another process was faster. */
export async function appendMarkedAudit(
  store: Store,
  added: NewAuditItem,
  mark: LogMark,
): Promise<AuditItem | undefined> {
  const appended = await store.appendMarked<AuditItem>(LOG, logEntries([added]), mark);
  return appended && { ...added.item, epoch: appended.epoch, number: appended.first };
}

export function auditMark(store: Store): Promise<string> {
  return store.logMark(LOG);
}

/** By kind and value. */
type TermTexts = Map<string, string>[];

/** `texts` has those of other items, and gets those of this one: looking up the same string again takes less time than an equal one. */
function termTexts(item: AuditItem, texts: TermTexts = []): (string | undefined)[] {
  const found = termsOf(item);
  return TERM_KINDS.map((kind, index) => {
    const term = found[kind];
    if (term === undefined)
      return kind === 'grant' && item.account !== undefined ? `owner:${item.account}` : undefined;
    const ofKind = (texts[index] ??= new Map());
    const text = ofKind.get(term) ?? termText(kind, term);
    ofKind.set(term, text);
    return text;
  });
}

function logEntries(added: readonly NewAuditItem[]): NewLogEntry<SealedItem>[] {
  const values = sealed(added.map(({ item }) => item));
  const texts: TermTexts = [];
  return added.map(({ item, part, completes }, index) => {
    const time = Date.parse(item.time) / 1000;
    const terms = termTexts(item, texts);
    return { value: values[index] ?? item, part, time, terms, completes: completionOf(completes) };
  });
}

const STARTED_TERM = termText('outcome', 'started');

function completionOf(place: StoredPlace | undefined): LogCompletion | undefined {
  return place && { number: place.number ?? 0, epoch: place.epoch ?? '', term: STARTED_TERM };
}

/** `item` is undefined if this process cannot decrypt it. */
export type NumberedItem = { number: number; epoch: string; item: AuditItem | undefined };

/** Items with a number above `number`, in the order of storing. Returns fewer than `limit` only at the end. */
export async function readAuditAfter(
  store: Store,
  number: number,
  limit: number,
): Promise<NumberedItem[]> {
  return (await readSealedAfter(store, number, limit)).map(opened);
}

export type NumberedSealedItem = Omit<NumberedItem, 'item'> & { item: SealedItem | undefined };

/** As `readAuditAfter`, with what verifies the items. */
export async function readSealedAfter(
  store: Store,
  number: number,
  limit: number,
): Promise<NumberedSealedItem[]> {
  return (await store.readLog<SealedItem>(LOG, { after: number, limit })).map(numbered);
}

export async function readSealedItems(
  store: Store,
  numbers: readonly number[],
): Promise<NumberedSealedItem[]> {
  return (await store.readLogEntries<SealedItem>(LOG, numbers)).map(numbered);
}

/** Replaces items that are still stored. */
export function replaceAuditItems(store: Store, items: readonly SealedItem[]): Promise<void> {
  const entries = items.map(({ number = 0, ...value }) => ({ number, value }));
  return store.replaceLogEntries(LOG, entries);
}

/** Those of the items that were not trimmed. */
export async function readAuditItems(
  store: Store,
  numbers: readonly number[],
): Promise<NumberedItem[]> {
  return (await readSealedItems(store, numbers)).map(opened);
}

function numbered({ number, epoch, value }: LogEntry<SealedItem>): NumberedSealedItem {
  return { number, epoch, item: value && { ...value, epoch, number } };
}

function opened({ item, ...place }: NumberedSealedItem): NumberedItem {
  return { ...place, item: item && unsealed(item) };
}

/** The number of the newest item, also if it was trimmed; 0 if there was none. */
export function lastAuditNumber(store: Store): Promise<number> {
  return store.lastInLog(LOG);
}

/** Items that are appended from now on have another epoch. */
export function beginAuditEpoch(store: Store): Promise<string> {
  return store.beginLogEpoch(LOG);
}

/** Resolves when a replica has what this process appended. */
export function auditReplicated(store: Store): Promise<void> {
  return store.replicated(LOG);
}

export const auditIndex = {
  blocks: (store: Store, range: Parameters<Store['readLogBlocks']>[1]) =>
    store.readLogBlocks(LOG, range),
  term: (store: Store, kind: TermKind, value: string) => store.logTerm(LOG, termText(kind, value)),
  /** The terms that the row of an item has; 0 for none. */
  terms: (store: Store, item: AuditItem) =>
    termTexts(item).map((text) => (text === undefined ? 0 : store.logTerm(LOG, text))),
  trim: (store: Store, trimming: Parameters<Store['trimLog']>[1]) => store.trimLog(LOG, trimming),
};

export type EarlierItem = { id: string; item: AuditItem | undefined };

/** Items of earlier versions. They stay until they expire. */
export async function readEarlierAudit(
  store: Store,
  range: Parameters<Store['range']>[1],
): Promise<EarlierItem[]> {
  const entries = await store.range<AuditItem>(EARLIER, range);
  return entries.map(({ id, value }) => ({ id, item: value }));
}
