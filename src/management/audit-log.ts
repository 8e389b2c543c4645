import { type AuditItem, readAudit } from '../audit/audit.ts';
import { eventSubject, indexedEntries, lastIndexed } from '../audit/audit-index.ts';
import type { Entry, Range, Store } from '../store/store.ts';
import type { Handlers } from './context.ts';
import type { auditOperations } from './resources/audit.ts';
import type { Page } from './resources/schemas.ts';

export const auditHandlers: Handlers<keyof typeof auditOperations> = {
  listAudit: (management, { query: { order, ...filter } }) =>
    listAudit(management, { ...filter, newestFirst: order !== 'oldest' }),
};

const BATCH_ITEMS = 100;
/** A page ends with the item that exceeds this size (approximate). */
const MAX_PAGE_BYTES = 1024 * 1024;
/** Entries read for one page. Bounds the response time if few entries match; the page may then be empty. */
const MAX_ENTRIES_READ = 1000;
/** The clocks of processes differ, so entries are ordered by time only within this tolerance. */
const CLOCK_SKEW_SECONDS = 600;

export type AuditFilter = {
  limit: number;
  after?: string | undefined;
  /** Seconds since the epoch. */
  since?: number | undefined;
  /** The event name. */
  event?: string | undefined;
  /** Ids of the records that an item is about. */
  account?: string | undefined;
  client?: string | undefined;
  grant?: string | undefined;
  newestFirst?: boolean;
};

/** Each read covers at most MAX_ENTRIES_READ items. */
const MAX_READS = 2;

/** As `listAudit`, and reads on, within bounds, until it finds an item. */
export async function searchAudit(
  services: Parameters<typeof listAudit>[0],
  filter: AuditFilter,
): Promise<Page<AuditItem>> {
  let found = await listAudit(services, filter);
  for (let reads = 1; found.items.length === 0 && found.next && reads < MAX_READS; reads += 1)
    found = await listAudit(services, { ...filter, after: found.next });
  return found;
}

type Reading = { store: Store; now: () => number };

export async function listAudit(
  { services }: { services: Reading },
  { limit, after, since = -Infinity, newestFirst, ...filter }: AuditFilter,
): Promise<Page<AuditItem>> {
  const items: AuditItem[] = [];
  let last: string | undefined;
  let bytes = 0;
  let read = 0;
  for await (const { cursor, value, cost } of candidates(
    services,
    { after, newestFirst },
    filter,
  )) {
    const time = Date.parse(value?.time ?? '') / 1000;
    if (newestFirst && time < since - CLOCK_SKEW_SECONDS) break;
    if (items.length === limit || bytes > MAX_PAGE_BYTES || read >= MAX_ENTRIES_READ)
      return { items, next: last };
    read += cost;
    last = cursor;
    if (!value || time < since || !matches(value, filter)) continue;
    items.push(value);
    bytes += JSON.stringify(value).length;
  }
  return { items };
}

function matches(
  item: AuditItem,
  { event, account, client, grant }: Omit<AuditFilter, 'limit'>,
): boolean {
  return (
    (event ?? item.event) === item.event &&
    (account === undefined || account === item.account) &&
    (client === undefined || client === item.clientId) &&
    (grant === undefined || grant === item.grantId)
  );
}

/** The list continues behind the entry after `cursor`. `cost` is relative to that of an entry of the log. */
type Candidate = { cursor: string; value: AuditItem | undefined; cost: number };

const INDEXED_COST = 4;

/** Yields entries that may match, in order: with a filter and the newest first, those of the index, after those that are not in it yet. */
async function* candidates(
  { store, now }: Reading,
  { after, newestFirst }: Omit<Range, 'limit'>,
  filter: Omit<AuditFilter, 'limit'>,
): AsyncGenerator<Candidate> {
  const subject = newestFirst ? subjectOf(filter) : undefined;
  const indexed = subject && (await lastIndexed(store));
  for await (const { id, value } of entries(store, { after, newestFirst })) {
    if (indexed !== undefined && id <= indexed) break;
    yield { cursor: id, value, cost: 1 };
  }
  if (!subject || indexed === undefined) return;
  for await (const { id, value } of indexedEntries(store, subject, { after, now: now() }))
    // Later ones were in the log above, and have been indexed since.
    if (id <= indexed) yield { cursor: id, value, cost: INDEXED_COST };
}

/** The subject that usually has the fewest items. */
function subjectOf({ event, account, client, grant }: Omit<AuditFilter, 'limit'>) {
  if (grant !== undefined) return { kind: 'grant', id: grant } as const;
  if (account !== undefined) return { kind: 'account', id: account } as const;
  if (client !== undefined) return { kind: 'client', id: client } as const;
  return event === undefined ? undefined : eventSubject(event);
}

async function* entries(
  store: Store,
  { after, newestFirst }: Omit<Range, 'limit'>,
): AsyncGenerator<Entry<AuditItem>> {
  for (let last = after; ;) {
    const batch = await readAudit(store, { after: last, limit: BATCH_ITEMS, newestFirst });
    yield* batch;
    last = batch.at(-1)?.id;
    if (batch.length < BATCH_ITEMS) return;
  }
}
