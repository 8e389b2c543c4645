// Items of the audit log as lines of CSV (RFC 4180) for spreadsheets, which run what looks like a formula.
import type { AuditItem } from '../audit/audit.ts';
import type { ItemNames } from './audit-names.ts';

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
};

const LINE_END = '\r\n';

export function csvHeader(): string {
  return Object.keys(COLUMNS).join(',') + LINE_END;
}

export function csvRow(item: AuditItem, names: ItemNames): string {
  const cells = Object.values(COLUMNS).map((cellOf) => csvCell(cellOf(item, names)));
  return cells.join(',') + LINE_END;
}

/** What begins a formula, also after spaces, and in full width. */
const FORMULA = /^\s*[=+\-@\t\r\n＝＋－＠]|^[\t\r\n]/u;
/** Would do something in a terminal. Lines in cells are allowed. */
const CONTROL = /(?![\t\r\n])[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

function csvCell(value: unknown): string {
  if (value === undefined) return '';
  if (typeof value !== 'string') return String(value);
  const text = value.replace(CONTROL, '\uFFFD');
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
