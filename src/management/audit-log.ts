import type { AuditItem } from '../audit/audit.ts';
import { searchAudit as search } from '../audit/audit-search.ts';
import type { Store } from '../store/store.ts';
import type { Handlers } from './context.ts';
import type { auditOperations } from './resources/audit.ts';
import type { Page } from './resources/schemas.ts';

export const auditHandlers: Handlers<keyof typeof auditOperations> = {
  listAudit: (management, { query: { order, ...filter } }) =>
    listAudit(management, { ...filter, newestFirst: order !== 'oldest' }),
};

export type AuditFilter = {
  limit: number;
  after?: string | undefined;
  /** Seconds since the epoch. */
  since?: number | undefined;
  until?: number | undefined;
  /** The event name. */
  event?: string | undefined;
  /** Ids of the records that an item is about. */
  account?: string | undefined;
  client?: string | undefined;
  grant?: string | undefined;
  newestFirst?: boolean;
};

/** Each read covers many items, but not any number of them. */
const MAX_READS = 2;

type Reading = { services: { store: Store } };

/** As `listAudit`, and reads on, within bounds, until it finds an item. */
export async function searchAudit(
  management: Reading,
  filter: AuditFilter,
): Promise<Page<AuditItem>> {
  let found = await listAudit(management, filter);
  for (let reads = 1; found.items.length === 0 && found.next && reads < MAX_READS; reads += 1)
    found = await listAudit(management, { ...filter, after: found.next });
  return found;
}

export function listAudit(
  { services }: Reading,
  { limit, after, newestFirst = false, ...filters }: AuditFilter,
): Promise<Page<AuditItem>> {
  return search(services.store, { filters, limit, after, newestFirst });
}
