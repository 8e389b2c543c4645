// Reading the audit log is on record too.
import { digestOf, recordAudit } from '../audit/audit.ts';
import type { AuditFilters } from '../audit/audit-search.ts';
import type { ManagementContext } from './context.ts';

const HOUR = 3600;

/** Records that somebody reads what only auditors read, once an hour for the same. Resolves when the item is stored. */
export async function recordReading(
  { by, services }: ManagementContext,
  read: 'arguments' | 'export' | 'verification',
  { since, until, account, client, connector, grant, ...others }: AuditFilters,
  details: { format?: string; q?: boolean } = {},
): Promise<void> {
  const { store } = services;
  const about = { account, clientId: client, connector, grantId: grant };
  const given = { read, ...details, ...others };
  // Relative times move on.
  const hours = [since, until].map((time) => time && Math.floor(time / HOUR));
  const key = `audit-read:${digestOf([by, about, given, hours]).sha256}`;
  if (!(await store.add(key, true, HOUR))) return;
  const times = Object.entries({ since, until }).flatMap(([name, time]) =>
    time === undefined ? [] : [[name, new Date(time * 1000).toISOString()]],
  );
  const item = { event: 'audit_read', by, ...about, outcome: 'done' };
  try {
    await recordAudit(services, { ...item, arguments: { ...given, ...Object.fromEntries(times) } });
  } catch (error) {
    await store.delete(key);
    throw error;
  }
}
