// The items of the audit log by number, as they are delivered.
import type { Store } from '../../store/store.ts';
import { type AuditItem, readAudit } from '../audit.ts';

/** Numbers rise in the order of storing. */
export type NumberedItem = AuditItem & { id: string; epoch: string; number: number };

/** Whether a number without an item is one of a trimmed item. */
export const IS_GAPLESS: boolean = false;

/** Returns the next items after a number, oldest first. Leaves out items that this process cannot decrypt. */
export async function readItemsAfter(
  store: Store,
  number: number,
  limit: number,
): Promise<NumberedItem[]> {
  const after = number === 0 ? {} : { after: entryId(number) };
  const entries = await readAudit(store, { ...after, limit });
  return entries.flatMap(({ id, value }) =>
    value ? [{ id, epoch: '', number: entryNumber(id), ...value }] : [],
  );
}

export async function lastItemNumber(store: Store): Promise<number> {
  const [last] = await readAudit(store, { limit: 1, newestFirst: true });
  return last ? entryNumber(last.id) : 0;
}

const HALF = 16;
const SEQUENCES = 1000;

function entryNumber(id: string): number {
  const [time, sequence] = [Number(id.slice(0, HALF)), Number(id.slice(HALF))];
  return time === 0 ? sequence : time * SEQUENCES + sequence;
}

function entryId(number: number): string {
  if (number < 1e14) return String(number).padStart(2 * HALF, '0');
  const halves = [Math.floor(number / SEQUENCES), number % SEQUENCES];
  return halves.map((half) => String(half).padStart(HALF, '0')).join('');
}
