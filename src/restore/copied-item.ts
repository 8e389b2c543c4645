// The copy of an item that a replay writes to the log of the restored store.
import type { AuditItem } from '../audit/audit.ts';
import { JOINED_NAMES, unsealed } from '../audit/chain/sealed-item.ts';

/** What only the item that was lost has. `by`: restore writes the copy. */
const OWN: ReadonlySet<string> = new Set(['id', 'epoch', 'number', 'time', 'by', JOINED_NAMES]);

/** Everything else, because another replay decides by the copy. */
export function copyOf(item: AuditItem): Omit<AuditItem, 'time'> {
  const members = Object.entries(unsealed(item)).filter(([name]) => !OWN.has(name));
  return Object.fromEntries(members) as Omit<AuditItem, 'time'>;
}
