// Compares the index, by which lists and filters find items, with the items themselves.
import { completedBy, numberAt, rowCount, termAt, timeAt } from '../../store/log-rows.ts';
import { LOG_PARTS, type Store } from '../../store/store.ts';
import { auditIndex, OUTCOME_TERM, readSealedItems, TERM_KINDS } from '../audit-log.ts';
import type { SealedItem } from './sealed-item.ts';
import type { VerifiedItem } from './verifier.ts';

/** What the index has of an item. */
type Row = { time: number; terms: number[]; completedBy: number };

type Report = (place: { number: number; id: string; time: string }) => void;

/** Passes on items with numbers from `first` to `last`, and reports those that the index does not have as they are. */
export async function* comparedWithIndex(
  store: Store,
  items: AsyncIterable<VerifiedItem>,
  { first, last, report }: { first: number; last: number; report: Report },
): AsyncGenerator<VerifiedItem> {
  const rows = await readRows(store, first, last);
  const suspected: number[] = [];
  for await (const verified of items) {
    const { number, item } = verified;
    if (item && number <= last && !(await isIndexed(store, item, rows.get(number))))
      suspected.push(number);
    yield verified;
  }
  // Calls may have ended meanwhile, and items may have been trimmed.
  for (const number of suspected) {
    const row = (await readRows(store, number, number)).get(number);
    const [found] = await readSealedItems(store, [number]);
    const item = found?.item;
    if (item && !(await isIndexed(store, item, row)))
      report({ number, id: item.id ?? String(number), time: item.time });
  }
}

const BLOCKS_AT_A_TIME = 16;

async function readRows(store: Store, first: number, last: number): Promise<Map<number, Row>> {
  const found = new Map<number, Row>();
  for (const part of LOG_PARTS)
    for (let before = last + 1; before > first;) {
      const blocks = await auditIndex.blocks(store, { part, before, limit: BLOCKS_AT_A_TIME });
      for (const { rows } of blocks)
        for (let index = 0; index < rowCount(rows); index += 1) {
          const number = numberAt(rows, index);
          if (number < first || number > last) continue;
          found.set(number, {
            time: timeAt(rows, index),
            terms: TERM_KINDS.map((_, term) => termAt(rows, index, term)),
            completedBy: completedBy(rows, index),
          });
        }
      if (blocks.length < BLOCKS_AT_A_TIME) break;
      before = blocks.at(-1)?.first ?? first;
    }
  return found;
}

/** The end of a call has no row: it changes that of the call. */
async function isIndexed(store: Store, item: SealedItem, row: Row | undefined): Promise<boolean> {
  if (item.event === 'call_ended') return row === undefined;
  if (!row || row.time !== Math.floor(Date.parse(item.time) / 1000)) return false;
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
