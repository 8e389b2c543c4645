// Compares the index, by which lists and filters find items, with the items themselves.
import { completedBy, numberAt, rowCount, termAt, timeAt } from '../../store/log-rows.ts';
import { LOG_PARTS, type LogPart, type Store } from '../../store/store.ts';
import {
  auditIndex,
  isInPart,
  OUTCOME_TERM,
  readSealedItems,
  TERM_KINDS,
  timeOfRow,
} from '../audit-log.ts';
import type { SealedItem } from './sealed-item.ts';
import type { VerifiedItem } from './verifier.ts';

/** What the index has of an item. */
type Row = { part: LogPart; time: number; terms: number[]; completedBy: number; isOnly: boolean };

type Report = (place: { number: number; id: string; time: string }) => void;

/** Passes on items with numbers from `first` to `last`, and reports those that the index does not have as they are. */
export async function* comparedWithIndex(
  store: Store,
  items: AsyncIterable<VerifiedItem>,
  { first, last, report }: { first: number; last: number; report: Report },
): AsyncGenerator<VerifiedItem> {
  const { rows, misplaced } = await readRows(store, first, last);
  const suspected: number[] = [];
  for await (const verified of items) {
    const { number, item } = verified;
    if (item && number <= last && !(await isIndexed(store, item, rows.get(number))))
      suspected.push(number);
    yield verified;
  }
  // Calls may have ended meanwhile, and items may have been trimmed.
  const wrong = new Set<number>();
  for (const number of suspected) {
    const row = (await readRows(store, number, number)).rows.get(number);
    const [found] = await readSealedItems(store, [number]);
    if (found?.item && !(await isIndexed(store, found.item, row))) wrong.add(number);
  }
  for (const one of misplaced) if (await isStillMisplaced(store, one)) wrong.add(one.number);
  for (const { number, item } of await readSealedItems(store, [...wrong]))
    if (item) report({ number, id: item.id ?? String(number), time: item.time });
}

const BLOCKS_AT_A_TIME = 16;

/** `misplaced`: numbers in a block that begins from `first` to `last` that belong in another block. */
type Rows = {
  rows: Map<number, Row>;
  misplaced: { number: number; part: LogPart; block: number }[];
};

async function readRows(store: Store, first: number, last: number): Promise<Rows> {
  const found = new Map<number, Row>();
  const misplaced: Rows['misplaced'] = [];
  for (const part of LOG_PARTS) {
    const [next] = await auditIndex.blocks(store, { part, after: last + 1, limit: 1 });
    let end = next?.first ?? Infinity;
    for (let before = last + 1; before > first;) {
      const blocks = await auditIndex.blocks(store, { part, before, limit: BLOCKS_AT_A_TIME });
      for (const { first: block, rows } of blocks) {
        for (let index = 0; index < rowCount(rows); index += 1) {
          const number = numberAt(rows, index);
          if (block >= first && (number < block || number >= end))
            misplaced.push({ number, part, block });
          if (number < first || number > last) continue;
          found.set(number, {
            part,
            isOnly: !found.has(number),
            time: timeAt(rows, index),
            terms: TERM_KINDS.map((_, term) => termAt(rows, index, term)),
            completedBy: completedBy(rows, index),
          });
        }
        end = block;
      }
      if (blocks.length < BLOCKS_AT_A_TIME) break;
      before = blocks.at(-1)?.first ?? first;
    }
  }
  return { rows: found, misplaced };
}

/** Trimming joins blocks. */
async function isStillMisplaced(
  store: Store,
  { number, part, block }: Rows['misplaced'][number],
): Promise<boolean> {
  const [next] = await auditIndex.blocks(store, { part, after: block + 1, limit: 1 });
  const [found] = await auditIndex.blocks(store, { part, before: block + 1, limit: 1 });
  if (found?.first !== block) return false;
  const numbers = Array.from({ length: rowCount(found.rows) }, (_, at) => numberAt(found.rows, at));
  return numbers.includes(number) && (number < block || number >= (next?.first ?? Infinity));
}

/** The end of a call has no row: it changes that of the call. */
async function isIndexed(store: Store, item: SealedItem, row: Row | undefined): Promise<boolean> {
  if (item.event === 'call_ended') return row === undefined;
  if (!row?.isOnly || row.time !== timeOfRow(item) || !isInPart(item, row.part)) return false;
  const end = row.completedBy > 0 ? await endOf(store, item, row.completedBy) : undefined;
  if (row.completedBy > 0 && !end) return false;
  const expected = auditIndex.terms(store, item);
  if (end) expected[OUTCOME_TERM] = auditIndex.terms(store, end)[OUTCOME_TERM] ?? 0;
  return expected.every((term, index) => term === row.terms[index]);
}

async function endOf(
  store: Store,
  call: SealedItem,
  number: number,
): Promise<SealedItem | undefined> {
  const [end] = await readSealedItems(store, [number]);
  return end?.item?.event === 'call_ended' && end.item.call === call.id ? end.item : undefined;
}
