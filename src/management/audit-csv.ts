// Items of the audit log as lines of CSV.
import type { AuditItem } from '../audit/audit.ts';
import type { ItemNames } from './audit-names.ts';
import { csvLine } from './csv.ts';

/** The cells of an item, by the heading of their column. Times are UTC. */
const COLUMNS: Record<string, (item: AuditItem, names: ItemNames) => unknown> = {
  time: ({ time }) => time,
  event: ({ event }) => event,
  outcome: ({ outcome }) => outcome,
  reason: ({ reason }) => reason,
  by: ({ by }) => by,
  byName: (_item, { by }) => by,
  account: ({ account }) => account,
  accountName: (_item, { account }) => account,
  clientId: ({ clientId }) => clientId,
  appName: (_item, { client }) => client,
  connector: ({ connector }) => connector,
  connectorName: (_item, { connector }) => connector,
  grantId: ({ grantId }) => grantId,
  upstream: ({ upstream }) => upstream,
  tool: ({ tool }) => tool,
  method: ({ method }) => method,
  target: ({ target }) => target,
  level: ({ level }) => level,
  toolError: ({ toolError }) => toolError,
  ms: ({ ms }) => ms,
  bytesIn: ({ bytesIn }) => bytesIn,
  bytesOut: ({ bytesOut }) => bytesOut,
  address: ({ address }) => address,
  userAgent: ({ userAgent }) => userAgent,
  clientName: ({ clientName }) => clientName,
  traceId: ({ traceId }) => traceId,
  count: ({ count }) => count,
  arguments: ({ arguments: given, argumentsJson }) =>
    argumentsJson ?? (given === undefined ? undefined : JSON.stringify(given)),
  id: ({ id }) => id,
  epoch: ({ epoch }) => epoch,
  number: ({ number }) => number,
  subject: ({ subject }) => subject,
};

export function csvHeader(): string {
  return csvLine(Object.keys(COLUMNS));
}

export function csvRow(item: AuditItem, names: ItemNames): string {
  return csvLine(Object.values(COLUMNS).map((cellOf) => cellOf(item, names)));
}
