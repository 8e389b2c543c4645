// What people read in the audit log: items by filters or by words, with the names of what they are about, as far as their role may read them.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { AuditItem } from '../audit/audit.ts';
import {
  type AuditFilters,
  type AuditFound,
  type Candidate,
  MAX_ROWS_READ,
  matchingAudit,
  type Searched,
  searchAudit as search,
} from '../audit/audit-search.ts';
import { HttpError } from '../http/errors.ts';
import { isObject } from '../json-values.ts';
import { includesRole, type ManagementRole } from '../settings/management-roles.ts';
import { exportAudit } from './audit-export.ts';
import {
  accountIdIn,
  type AuditNames,
  findAuditNames,
  knownNames,
  namesById,
} from './audit-names.ts';
import type { Handlers, ManagementContext } from './context.ts';
import type { auditOperations } from './resources/audit.ts';
import { recordReading } from './audit-read.ts';
import { searchFor } from './search.ts';

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
  const page = words
    ? await searchWords(management, words, filter)
    : await listReadable(management, filter);
  if (page.items.some(hasArguments)) {
    const { limit: _limit, after: _after, newestFirst: _newest, ...filters } = filter;
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

/** The role that reads everything in the audit log. */
export const AUDITOR: ManagementRole = 'auditor';

/** Without what only auditors read. */
function readableBy(role: ManagementRole, item: AuditItem): AuditItem {
  if (includesRole(role, AUDITOR)) return item;
  const { address: _address, userAgent: _userAgent, argumentsJson: _json, ...rest } = item;
  // The network of a device is an address.
  if (item.event === 'consent_approved' && isObject(rest.arguments)) {
    const { network: _network, ...others } = rest.arguments;
    return { ...rest, arguments: others };
  }
  // A receiver may repeat the item that it refuses.
  if (item.event !== 'call' && item.event !== 'delivery_rejected') return rest;
  const { arguments: _arguments, ...call } = rest;
  return call;
}

/** In items that match the other filters. */
const MAX_SEARCHED = 10_000;
const SEARCHED_AT_A_TIME = 100;

/** Begins with the newest item for later pages too, so that all of them search the same items. */
async function searchWords(
  management: ManagementContext,
  q: string,
  { limit, after, newestFirst: _newest, ...filters }: AuditFilter,
): Promise<AuditPage> {
  const hasWords = searchFor(q);
  const items: AuditItem[] = [];
  const known = knownNames();
  let [searched, cost, last]: [number, number, string | undefined] = [0, 0, undefined];
  let unreadable = 0;
  const page = async (next?: string): Promise<AuditPage> => ({
    items,
    ...(next ? { next } : {}),
    searched,
    ...(unreadable > 0 ? { unreadable } : {}),
    names: await findAuditNames(management, items),
  });
  for await (const batch of batchesOf(management, filters)) {
    const names = await findAuditNames(
      management,
      batch.flatMap(({ item }) => item ?? []),
      known,
    );
    for (const { cursor, item, cost: read, isUnreadable } of batch) {
      if (items.length === limit || cost >= MAX_ROWS_READ) return page(last);
      if (isUnreadable) unreadable += 1;
      last = cursor;
      cost += item ? 0 : read;
      if (!item) continue;
      const isBehind = after === undefined || cursor < after;
      if (isBehind && hasWords(textsOf(item, names))) items.push(item);
      searched += 1;
      if (searched === MAX_SEARCHED) return page();
    }
  }
  return page();
}

async function* batchesOf(
  { role, services }: ManagementContext,
  filters: AuditFilters,
): AsyncGenerator<Candidate[]> {
  let batch: Candidate[] = [];
  const order = { newestFirst: true, after: undefined, atATime: SEARCHED_AT_A_TIME };
  for await (const { item, ...place } of matchingAudit(services, { filters, ...order })) {
    batch.push({ ...place, item: item && readableBy(role, item) });
    if (batch.length < SEARCHED_AT_A_TIME) continue;
    yield batch;
    batch = [];
    // Folding texts takes time, and SQLite answers at once.
    await nextTurn();
  }
  yield batch;
}

/** Names, and what the item says itself. */
function textsOf(
  { arguments: given, ...item }: AuditItem,
  { people, apps, connectors, tokens }: AuditNames,
): (string | undefined)[] {
  const { account = '', by = '', clientId = '', connector = '' } = item;
  const person = [people.get(account), people.get(accountIdIn(by))];
  const named = [apps.get(clientId), tokens.get(clientId), connectors.get(connector)];
  return [
    ...[...person, ...named].flatMap((name) => [name?.text, name?.detail]),
    ...Object.values(item).map((value) => (typeof value === 'string' ? value : undefined)),
    given === undefined ? undefined : JSON.stringify(given),
  ];
}
