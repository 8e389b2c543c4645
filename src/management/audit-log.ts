// What people read in the audit log: items by filters or by words, with the names of what they are about, as far as their role may read them.
import type { AuditItem } from '../audit/audit.ts';
import {
  type AuditFilters,
  type AuditFound,
  type Searched,
  searchAudit as search,
} from '../audit/audit-search.ts';
import { HttpError } from '../http/errors.ts';
import { exportAudit } from './audit-export.ts';
import { type AuditNames, findAuditNames, namesById } from './audit-names.ts';
import { readableBy } from './audit-readable.ts';
import { searchWords } from './audit-words.ts';
import type { Handlers, ManagementContext } from './context.ts';
import type { auditOperations } from './resources/audit.ts';
import { recordReading } from './audit-read.ts';

export const auditHandlers: Handlers<keyof typeof auditOperations> = {
  async listAudit(management, { query: { order, ...filter } }) {
    const newestFirst = order !== 'oldest';
    if (filter.q && !newestFirst)
      throw new HttpError(400, 'invalid_request', 'q: finds the newest items first');
    const { names, ...page } = await readAudit(management, { ...filter, newestFirst });
    const named = namesById(names);
    return named.length === 0 ? page : { ...page, names: Object.fromEntries(named) };
  },

  async exportAudit(management, { query: { format, ...filters } }) {
    await recordReading(management, 'export', filters, { format });
    return exportAudit(management, format, filters);
  },
};

export type AuditFilter = AuditFilters & {
  limit: number;
  after?: string | undefined;
  newestFirst?: boolean;
};

/** Each read covers many items, but not any number of them. */
const MAX_READS = 2;

type Reading = { services: Searched };

/** As `listAudit`, and reads on, within bounds, until it finds an item. */
export async function searchAudit(management: Reading, filter: AuditFilter): Promise<AuditFound> {
  let found = await listAudit(management, filter);
  for (let reads = 1; found.items.length === 0 && found.next && reads < MAX_READS; reads += 1) {
    const unreadable = found.unreadable ?? 0;
    found = await listAudit(management, { ...filter, after: found.next });
    if (unreadable > 0) found.unreadable = (found.unreadable ?? 0) + unreadable;
  }
  return found;
}

export function listAudit(
  { services }: Reading,
  { limit, after, newestFirst = false, ...filters }: AuditFilter,
): Promise<AuditFound> {
  return search(services, { filters, limit, after, newestFirst });
}

export type AuditPage = AuditFound & {
  names: AuditNames;
  /** How many of the newest items were searched for the words. */
  searched?: number;
};

/** A page of what the role may read. With words in `q`, the newest first. */
export async function readAudit(
  management: ManagementContext,
  { q, ...filter }: AuditFilter & { q?: string | undefined },
): Promise<AuditPage> {
  const words = q?.trim();
  const { limit, after, newestFirst: _newest, ...filters } = filter;
  const page = words
    ? await searchWords(management, { q: words, filters, limit, after })
    : await listReadable(management, filter);
  if (page.items.some(hasArguments)) {
    await recordReading(management, 'arguments', filters, words ? { q: true } : {});
  }
  return page;
}

async function listReadable(
  management: ManagementContext,
  filter: AuditFilter,
): Promise<AuditPage> {
  const { items, ...page } = await searchAudit(management, filter);
  const shown = items.map((item) => readableBy(management.role, item));
  return { items: shown, ...page, names: await findAuditNames(management, shown) };
}

function hasArguments({ event, arguments: given, argumentsJson }: AuditItem): boolean {
  return event === 'call' && (given !== undefined || argumentsJson !== undefined);
}
