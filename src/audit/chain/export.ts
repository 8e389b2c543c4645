// The log as an export that can be verified without a store (verify-export.ts), oldest items first: a line about the export, then the items, and
// before the items of each checkpoint a line with its list.
import type { Store } from '../../store/store.ts';
import type { CheckpointList } from './checkpoint.ts';
import { lastAuditNumber } from '../audit-log.ts';
import {
  markedCheckpoint,
  oldestList,
  readCheckpointMark,
  readList,
  sealedItems,
} from './checkpoint-lists.ts';
import type { SealedItem } from './sealed-item.ts';

/** The first line. `filters` are those that leave out items; `since` and `until` (ISO 8601) are none. */
export type ExportHeader = {
  export: {
    issuer: string;
    time: string;
    since?: string | undefined;
    until?: string | undefined;
    filters: Record<string, string>;
  };
};

/** `list` is that of the checkpoint that covers the items that follow. */
export type ExportLine = { item: SealedItem } | { list: CheckpointList };

/** A line of JSON, with its end. */
export function exportLine(line: ExportHeader | ExportLine): string {
  return `${JSON.stringify('item' in line ? line.item : line)}\n`;
}

/** Items are stored soon after their time, but the clocks of processes differ. */
const MAX_DELAY_SECONDS = 86_400;

/** Everything that is stored, or the items of a time (seconds since the epoch). A checkpoint that does not have all its items there is left out. */
export async function* exportedLog(
  store: Store,
  {
    since = -Infinity,
    until = Infinity,
  }: { since?: number | undefined; until?: number | undefined },
): AsyncGenerator<ExportLine> {
  const isWanted = ({ time }: SealedItem) => {
    const at = Date.parse(time) / 1000;
    return at >= since && at < until;
  };
  const wanted = async function* (first: number, last: number): AsyncGenerator<ExportLine> {
    for await (const { item } of sealedItems(store, first, last))
      if (item && isWanted(item)) yield { item };
  };
  const hasAll = async (first: number, last: number) => {
    for await (const { item } of sealedItems(store, first, last))
      if (item && !isWanted(item)) return false;
    return true;
  };
  const newest = (await readCheckpointMark(store))?.checkpoint ?? 0;
  let after = 0;
  for (let number = await oldestList(store, newest, since); ; number += 1) {
    const end = await lastAuditNumber(store);
    const mark = await readCheckpointMark(store);
    if (!mark || mark.checkpoint < number) {
      yield* wanted(after + 1, end);
      return;
    }
    // The list of the newest one may have to be made.
    const isNewest = mark.checkpoint === number;
    const listed = isNewest ? await markedCheckpoint(store, mark) : await readList(store, number);
    if (!listed) continue;
    const { time, first, last } = listed.checkpoint;
    if (after === 0 && since === -Infinity) yield* wanted(1, first.number - 1);
    const at = Date.parse(time) / 1000;
    if (at - MAX_DELAY_SECONDS > until) return;
    const isInside = at - MAX_DELAY_SECONDS > since && at + MAX_DELAY_SECONDS < until;
    if (isInside || (await hasAll(first.number, last.number))) yield { list: listed.list };
    yield* wanted(first.number, last.number);
    after = last.number;
  }
}
