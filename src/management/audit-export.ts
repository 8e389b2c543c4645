// The audit log as a file: everything that filters find, oldest first, with the present names of what it is about. Reads and sends a little at a time,
// and no faster than the reader takes it.
import type { AuditItem } from '../audit/audit.ts';
import { type AuditFilters, matchingAudit } from '../audit/audit-search.ts';
import { TERM_KINDS } from '../audit/audit-log.ts';
import { exportedLog, exportLine } from '../audit/chain/export.ts';
import { JOINED_NAMES } from '../audit/chain/sealed-item.ts';
import { csvHeader, csvRow } from './audit-csv.ts';
import { findAuditNames, knownNames, type ItemNames, namesOf } from './audit-names.ts';
import type { ManagementContext } from './context.ts';
import type { EXPORTS } from './resources/audit.ts';

const AT_A_TIME = 500;

/** Yields texts of many lines. */
export async function* exportAudit(
  management: ManagementContext,
  format: keyof typeof EXPORTS,
  filters: AuditFilters,
): AsyncGenerator<string> {
  const isCsv = format === 'csv';
  yield isCsv ? csvHeader() : exportHeader(management, filters);
  const toText = isCsv ? csvRow : jsonLine;
  const known = knownNames();
  try {
    const found =
      isCsv || isFiltered(filters) ? listed(management, filters) : whole(management, filters);
    for await (const batch of inBatches(found)) {
      const items = batch.flatMap(({ item }) => item ?? []);
      const names = await findAuditNames(management, items, known);
      yield batch
        .map(({ item, line }) => (item ? toText(item, namesOf(item, names)) : (line ?? '')))
        .join('');
    }
  } catch (error) {
    management.services.logger.error({ err: error }, 'an export of the audit log ended early');
    throw error;
  }
}

function isFiltered(filters: AuditFilters): boolean {
  return TERM_KINDS.some((kind) => filters[kind] !== undefined);
}

function exportHeader(
  { settings, services }: ManagementContext,
  { since, until, ...terms }: AuditFilters,
): string {
  const given = Object.entries(terms).filter(([, value]) => value !== undefined);
  return exportLine({
    export: {
      issuer: settings.authUrl,
      time: isoTime(services.now()),
      ...(since === undefined ? {} : { since: isoTime(since) }),
      ...(until === undefined ? {} : { until: isoTime(until) }),
      filters: Object.fromEntries(given) as Record<string, string>,
    },
  });
}

function isoTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

/** An item, or a line that is none. */
type Exported = { item?: AuditItem; line?: string };

/** What can be verified: items as they are stored, with the lists of the checkpoints. */
async function* whole(
  { services }: ManagementContext,
  { since, until }: AuditFilters,
): AsyncGenerator<Exported> {
  for await (const line of exportedLog(services.store, { since, until }))
    yield 'item' in line ? { item: line.item } : { line: exportLine(line) };
}

/** Items as lists show them: a call and how it ended are one. */
async function* listed(
  { services }: ManagementContext,
  filters: AuditFilters,
): AsyncGenerator<Exported> {
  const order = { newestFirst: false, after: undefined, atATime: AT_A_TIME };
  for await (const { item } of matchingAudit(services, { filters, ...order }))
    if (item) yield { item };
}

async function* inBatches(found: AsyncIterable<Exported>): AsyncGenerator<Exported[]> {
  let batch: Exported[] = [];
  for await (const one of found) {
    batch.push(one);
    if (batch.length < AT_A_TIME) continue;
    yield batch;
    batch = [];
  }
  yield batch;
}

function jsonLine(item: AuditItem, names: ItemNames): string {
  const isNamed = Object.keys(names).length > 0;
  return `${JSON.stringify(isNamed ? { ...item, [JOINED_NAMES]: names } : item)}\n`;
}
