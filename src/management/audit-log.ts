// The audit log as administrators read it: page by page, from a time on, and only what they look for.
import { type AuditItem, readAudit } from '../audit/audit.ts';
import type { Entry, Range, Store } from '../store/store.ts';
import { auditPage as auditPageSchema, type Page } from './api/resources.ts';
import { auditQuery } from './api/requests.ts';
import { route } from './api/routes.ts';
import type { ManagementServices } from './services.ts';

const BATCH = 100;
/** Bytes, more or less: a page ends with the item that goes beyond it. */
const PAGE = 1024 * 1024;
/** Entries for one page: however many there are before what is asked for, every answer comes soon, maybe without items. */
const MOST_READ = 1000;
/** Seconds that the clocks of processes may differ: what one of them recorded a moment later may say that it was earlier. */
const OUT_OF_ORDER = 600;

export const auditRoutes = [
  route({
    method: 'get',
    path: '/audit',
    name: 'listAudit',
    summary:
      'Lists what was recorded, the oldest first unless `order` is `newest`. A page may be empty although there is more.',
    query: auditQuery,
    answer: auditPageSchema,
    handle: (services, { query: { order, ...wanted } }) =>
      listAudit(services, { ...wanted, newestFirst: order === 'newest' }),
  }),
];

export type WantedAudit = {
  limit: number;
  after?: string | undefined;
  /** Seconds since the epoch. */
  since?: number | undefined;
  /** Only those of this name. */
  event?: string | undefined;
  newestFirst?: boolean;
};

export async function listAudit(
  { store }: Pick<ManagementServices, 'store'>,
  { limit, after, since = -Infinity, event, newestFirst }: WantedAudit,
): Promise<Page<AuditItem>> {
  const items: AuditItem[] = [];
  let last: string | undefined;
  let bytes = 0;
  let read = 0;
  for await (const { id, value } of entries(store, { after, newestFirst })) {
    const time = Date.parse(value?.time ?? '') / 1000;
    if (newestFirst && time < since - OUT_OF_ORDER) break;
    if (items.length === limit || bytes > PAGE || read === MOST_READ) return { items, next: last };
    read += 1;
    last = id;
    if (!value || time < since || (event ?? value.event) !== value.event) continue;
    items.push(value);
    bytes += JSON.stringify(value).length;
  }
  return { items };
}

async function* entries(
  store: Store,
  { after, newestFirst }: Omit<Range, 'limit'>,
): AsyncGenerator<Entry<AuditItem>> {
  for (let last = after; ;) {
    const batch = await readAudit(store, { after: last, limit: BATCH, newestFirst });
    yield* batch;
    last = batch.at(-1)?.id;
    if (batch.length < BATCH) return;
  }
}
