// The index of the audit log in memory, so that a search reads only the blocks of the store that may have what it looks for. What this copy lacks or
// has too much costs time, and hides nothing: searches compare the rows in the store, and read what is not here from the store.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type BackgroundLoop, startLoop } from '../background-loop.ts';
import {
  NUMBER_BYTES,
  numberAt,
  ROW_BYTES,
  rowCount,
  TERMS_AT,
  timeAt,
} from '../store/log-rows.ts';
import { type LogBlock, LOG_PARTS, type LogPart, type Store } from '../store/store.ts';
import {
  auditIndex,
  lastAuditNumber,
  readAuditItems,
  TERM_KINDS,
  type TermKind,
} from './audit-log.ts';

/** What rows must have. Times are seconds since the epoch. */
export type WantedRows = {
  since: number;
  until: number;
  terms: readonly { kind: TermKind; hash: number }[];
};

/** Blocks in a row: the number of the first one in the store's order, and how many follow it upwards. */
export type BlockRun = { newest: number; count: number };

/** Blocks in the order of the search. It goes on at `next`, if the copy has not everything. */
export type FoundBlocks = { runs: BlockRun[]; next: number; isEnd: boolean };

export type BlockSearch = { part: LogPart; from: number; newestFirst: boolean; limit: number };

export type AuditBlocks = Pick<BackgroundLoop, 'stop'> & {
  /** Reads what was added. Does not wait for the first reading, which may take seconds. */
  refresh(): Promise<void>;
  /** Undefined if the copy does not have where the search begins. */
  find(wanted: WantedRows, search: BlockSearch): FoundBlocks | undefined;
};

const FOLLOW_MS = 30_000;
const BLOCKS_AT_A_TIME = 128;
/** Two million rows of each part, which have 100 MB. Older ones are read from the store. */
const MAX_BLOCKS = 24_000;
/** Bounds how long a search keeps the process from other work. */
const MAX_LOOKED_AT = 24_000;
const MAX_OPEN_READ = 32;

const WORD_BYTES = 4;
const ROW_WORDS = ROW_BYTES / WORD_BYTES;
const FIRST_TERM = TERMS_AT / WORD_BYTES;
const OUTCOME = TERM_KINDS.indexOf('outcome');
const EVENT = TERM_KINDS.indexOf('event');
/** The kinds of which a value is in the fewest rows come first. */
const RAREST_FIRST: readonly TermKind[] = [
  'grant',
  'account',
  'client',
  'tool',
  'connector',
  'event',
  'outcome',
];

type CachedBlock = {
  first: number;
  count: number;
  /** The rows as signed words, one column after the other: what a search compares lies side by side. */
  words: Int32Array;
  oldest: number;
  newest: number;
};

type CachedPart = {
  part: LogPart;
  blocks: CachedBlock[];
  /** The first number that may be missing here. */
  end: number;
  /** The lowest number that is here; 0 if nothing is older. */
  begin: number;
  /** First numbers of blocks with calls that had not ended. */
  open: Set<number>;
  /** The numbers up to this one are being trimmed. */
  trimmedTo: number;
};

export function openAuditBlocks(store: Store, onError: (error: unknown) => void): AuditBlocks {
  const started = auditIndex.term(store, 'outcome', 'started') | 0;
  const trimmed = auditIndex.term(store, 'event', 'audit_trimmed') | 0;
  const parts = LOG_PARTS.map((part): CachedPart => ({
    part,
    blocks: [],
    end: 0,
    begin: Infinity,
    open: new Set(),
    trimmedTo: 0,
  }));
  let isLoaded = false;
  let following: Promise<void> | undefined;
  /** The number of the last item that was looked at. */
  let seenTrimmings = 0;
  /** The numbers of items among which are trimmings, until they were read: the store may fail. */
  const unreadTrimmings = new Set<number>();

  const hasTerm = (block: CachedBlock, term: number, word: number) =>
    rowWith(block, { term, word, or: word }, 0) !== -1;
  const noteOpen = (part: CachedPart, block: CachedBlock) => {
    part.open.delete(block.first);
    if (hasTerm(block, OUTCOME, started)) part.open.add(block.first);
  };
  const blockFrom = async (part: LogPart, first: number): Promise<LogBlock | undefined> =>
    (await auditIndex.blocks(store, { part, before: first + 1, limit: 1 }))[0];

  /** Rows are added to the newest block only, so that it is left out. */
  const load = async (part: CachedPart) => {
    const found: CachedBlock[] = [];
    let isAll = false;
    for (let before = Number.MAX_SAFE_INTEGER; !isAll && found.length < MAX_BLOCKS;) {
      const range = { part: part.part, before, limit: BLOCKS_AT_A_TIME };
      const page = await auditIndex.blocks(store, range);
      found.push(...page.map(cached));
      before = page.at(-1)?.first ?? before;
      isAll = page.length < BLOCKS_AT_A_TIME;
      await nextTurn();
    }
    const newest = found.shift();
    part.blocks = found.toReversed();
    part.end = newest?.first ?? 0;
    part.begin = isAll ? 0 : (part.blocks[0]?.first ?? Infinity);
    for (const block of part.blocks) noteOpen(part, block);
  };
  /** After a failover, the newest blocks may be others. */
  const dropReplaced = async (part: CachedPart) => {
    for (let last = part.blocks.at(-1); last; last = part.blocks.at(-1)) {
      const stored = await blockFrom(part.part, last.first);
      if (stored?.first === last.first && isSame(stored.rows, rowsOf(last))) return;
      part.blocks.pop();
      part.end = last.first;
    }
  };
  /** Returns what is new, with the newest block. */
  const addNewer = async (part: CachedPart): Promise<CachedBlock[]> => {
    const added: CachedBlock[] = [];
    let newest: LogBlock | undefined;
    let after = (part.blocks.at(-1)?.first ?? 0) + 1;
    for (let isAll = false; !isAll;) {
      const range = { part: part.part, after, limit: BLOCKS_AT_A_TIME };
      const page = await auditIndex.blocks(store, range);
      isAll = page.length < BLOCKS_AT_A_TIME;
      const last = page.at(-1);
      if (!last) break;
      added.push(...page.slice(0, -1).map(cached));
      newest = last;
      after = last.first;
      if (!isAll) await nextTurn();
    }
    if (!newest) return [];
    part.blocks.push(...added);
    part.end = newest.first;
    for (const block of added) noteOpen(part, block);
    const surplus = part.blocks.length - MAX_BLOCKS;
    if (surplus > 0) {
      part.blocks.splice(0, surplus);
      part.begin = part.blocks[0]?.first ?? part.end;
    }
    return [...added, cached(newest)];
  };
  const readOpen = async (part: CachedPart) => {
    for (const first of [...part.open].slice(0, MAX_OPEN_READ)) {
      const index = indexOf(part, first);
      const stored = await blockFrom(part.part, first);
      part.open.delete(first);
      if (stored?.first !== first || part.blocks[index]?.first !== first) continue;
      const block = cached(stored);
      part.blocks[index] = block;
      noteOpen(part, block);
    }
  };
  /** What is being trimmed is read again by the run after the next one, when it is gone. */
  const noteTrimmings = async (added: readonly CachedBlock[]) => {
    for (const block of added.filter((one) => hasTerm(one, EVENT, trimmed))) {
      const rows = rowsOf(block);
      const numbers = Array.from({ length: block.count }, (_, index) => numberAt(rows, index));
      for (const number of numbers) if (number > seenTrimmings) unreadTrimmings.add(number);
      seenTrimmings = Math.max(seenTrimmings, ...numbers);
    }
    if (unreadTrimmings.size === 0) return;
    for (const { item } of await readAuditItems(store, [...unreadTrimmings])) {
      if (item?.event !== 'audit_trimmed') continue;
      const part = parts.find((each) => each.part === item.class);
      const last = item.ranges?.at(-1)?.[1] ?? 0;
      if (part) part.trimmedTo = Math.max(part.trimmedTo, last);
    }
    unreadTrimmings.clear();
  };
  const readTrimmed = async (part: CachedPart, upTo: number) => {
    const end = part.blocks.findIndex(({ first }) => first > upTo);
    const count = end === -1 ? part.blocks.length : end;
    if (count === 0) return;
    const limit = part.blocks[count]?.first ?? part.end;
    const left: CachedBlock[] = [];
    for (let after = part.begin; after < limit;) {
      const page = await auditIndex.blocks(store, {
        part: part.part,
        after,
        limit: BLOCKS_AT_A_TIME,
      });
      left.push(...page.filter(({ first }) => first < limit).map(cached));
      if (page.length < BLOCKS_AT_A_TIME) break;
      after = (page.at(-1)?.first ?? limit) + 1;
      await nextTurn();
    }
    part.blocks.splice(0, count, ...left);
  };
  const follow = async () => {
    for (const part of parts) {
      await dropReplaced(part);
      const added = await addNewer(part);
      if (part.part === 'lasting') await noteTrimmings(added);
      await readOpen(part);
    }
  };
  const once = (work: () => Promise<void>): Promise<void> => {
    following ??= work().finally(() => (following = undefined));
    return following;
  };
  const loop = startLoop(async () => {
    await once(async () => {
      if (isLoaded) {
        for (const part of parts) {
          if (part.trimmedTo > 0) await readTrimmed(part, part.trimmedTo);
          part.trimmedTo = 0;
        }
        return follow();
      }
      seenTrimmings = await lastAuditNumber(store);
      for (const part of parts) await load(part);
      isLoaded = true;
    }).catch(onError);
    return FOLLOW_MS;
  });
  return {
    stop: () => loop.stop(),
    refresh: () => (isLoaded ? once(follow) : Promise.resolve()),
    find(wanted, { part: name, from, newestFirst, limit }) {
      const part = parts.find((each) => each.part === name);
      if (!isLoaded || !part) return undefined;
      const { blocks, begin, end } = part;
      if (newestFirst ? from > end || (from <= begin && begin > 0) : from >= end || from < begin)
        return undefined;
      const isWanted = matcher(wanted, started);
      const step = newestFirst ? -1 : 1;
      let index = newestFirst ? indexOf(part, from - 1) : Math.max(0, indexOf(part, from));
      const found: number[] = [];
      let looked = 0;
      for (; looked < MAX_LOOKED_AT && found.length < limit; index += step, looked += 1) {
        const block = blocks[index];
        if (!block) break;
        if (isWanted(block)) found.push(index);
      }
      const behind = blocks[newestFirst ? index + 1 : index];
      const isEnd = newestFirst && index < 0 && begin === 0;
      const next = behind?.first ?? (newestFirst ? Math.min(from, begin) : end);
      return { runs: runsOf(found, blocks), next, isEnd };
    },
  };
}

/** The block that has the number if one has; -1 if all are newer. */
function indexOf({ blocks }: CachedPart, number: number): number {
  let [low, high] = [0, blocks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((blocks[middle]?.first ?? Infinity) <= number) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function runsOf(indices: readonly number[], blocks: readonly CachedBlock[]): BlockRun[] {
  const runs: (BlockRun & { to: number })[] = [];
  for (const index of indices) {
    const first = blocks[index]?.first ?? 0;
    const run = runs.at(-1);
    if (run && Math.abs(run.to - index) === 1) {
      run.to = index;
      run.count += 1;
      run.newest = Math.max(run.newest, first);
    } else runs.push({ newest: first, count: 1, to: index });
  }
  return runs.map(({ newest, count }) => ({ newest, count }));
}

function cached({ first, rows }: LogBlock): CachedBlock {
  const count = rowCount(rows);
  const times = Array.from({ length: count }, (_, index) => timeAt(rows, index));
  const words = new Int32Array(count * ROW_WORDS);
  for (let column = 0; column < ROW_WORDS; column += 1)
    for (let row = 0; row < count; row += 1)
      words[column * count + row] = rows.readInt32BE(row * ROW_BYTES + column * WORD_BYTES);
  return { first, count, words, oldest: Math.min(...times), newest: Math.max(...times) };
}

/** The rows as the store has them. */
function rowsOf({ count, words }: CachedBlock): Buffer {
  const rows = Buffer.alloc(count * ROW_BYTES);
  words.forEach((word, at) => {
    const [column, row] = [Math.floor(at / count), at % count];
    rows.writeInt32BE(word, row * ROW_BYTES + column * WORD_BYTES);
  });
  return rows;
}

/** Whether it has the same items: calls may have ended meanwhile. */
function isSame(rows: Buffer, others: Buffer): boolean {
  if (rows.length !== others.length) return false;
  for (let at = 0; at < rows.length; at += ROW_BYTES) {
    const [terms, end] = [at + TERMS_AT + 4, at + ROW_BYTES];
    if (rows.compare(others, at, at + NUMBER_BYTES, at, at + NUMBER_BYTES) !== 0) return false;
    if (rows.compare(others, terms, end, terms, end) !== 0) return false;
  }
  return true;
}

type WantedTerm = { term: number; word: number; or: number };

/** The first row from `row` on that has the term; -1 if none has. */
function rowWith({ count, words }: CachedBlock, { term, word, or }: WantedTerm, row: number) {
  const column = (FIRST_TERM + term) * count;
  const end = column + count;
  for (let at = column + row; at < end; at += 1) {
    const found = words[at];
    if (found === word || found === or) return at - column;
  }
  return -1;
}

/** Calls that had not ended may have any outcome now. */
function matcher(
  { since, until, terms }: WantedRows,
  started: number,
): (block: CachedBlock) => boolean {
  const [first, ...others] = terms
    .toSorted((one, other) => RAREST_FIRST.indexOf(one.kind) - RAREST_FIRST.indexOf(other.kind))
    .map(({ kind, hash }): WantedTerm => {
      const word = hash | 0;
      return { term: TERM_KINDS.indexOf(kind), word, or: kind === 'outcome' ? started : word };
    });
  return (block) => {
    if (block.oldest > until || block.newest < since) return false;
    if (!first) return true;
    for (let row = rowWith(block, first, 0); row !== -1; row = rowWith(block, first, row + 1)) {
      let isMatch = true;
      for (const { term, word, or } of others) {
        const found = block.words[(FIRST_TERM + term) * block.count + row];
        if (found !== word && found !== or) isMatch = false;
      }
      if (isMatch) return true;
    }
    return false;
  };
}
