// The command `audit`: what was recorded, the newest last.
import type { Command } from 'commander';
import type { AuditItem } from '../../audit/audit.ts';
import { listAudit } from '../api/client.ts';
import { parseCount, parseMoment, type Moment } from './argument.ts';
import { table, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse audit
  $ gatehouse audit --since 7d --limit 1000
  $ gatehouse audit --since 2030-01-31T00:00:00Z --json`;

const LONGEST_DETAIL = 60;

type AuditOptions = { since?: Moment; event?: string; limit: number };

export function addAuditCommand(program: Command, { findAccess, print, now }: Terminal): void {
  program
    .command('audit')
    .description('show security events, and the calls that were made with the level full')
    .option('--since <when>', 'from 90s, 15m, 24h or 7d ago, or from an ISO 8601 time', parseMoment)
    .option('--event <name>', 'only events of this name, such as connector_revoked')
    .option('--limit <number>', 'no more than this many, the newest', parseCount, 100)
    .addHelpText('after', EXAMPLES)
    .action(async ({ since, event, limit }: AuditOptions) => {
      const items: AuditItem[] = [];
      const wanted = {
        order: 'newest',
        ...(since ? { since: timeOf(since, now()) } : {}),
        ...(event === undefined ? {} : { event }),
      } as const;
      for await (const item of listAudit(findAccess(), wanted)) {
        items.push(item);
        if (items.length === limit) break;
      }
      print({ items: items.toReversed() }, auditText);
    });
}

function timeOf(moment: Moment, now: number): string {
  if ('time' in moment) return moment.time;
  return new Date((now - moment.seconds) * 1000).toISOString();
}

function auditText({ items }: { items: AuditItem[] }): string {
  if (items.length === 0) return 'Nothing was recorded.';
  const rows = items.map(({ time, event, outcome, account, clientId, connector, ...rest }) => [
    time,
    event,
    outcome,
    account ?? '-',
    clientId ?? '-',
    connector ?? '-',
    detail(rest),
  ]);
  return table(['TIME', 'EVENT', 'OUTCOME', 'ACCOUNT', 'CLIENT', 'CONNECTOR', 'DETAIL'], rows);
}

function detail({ tool, arguments: given, reason, by }: Partial<AuditItem>): string {
  const text = [
    tool,
    given === undefined ? undefined : JSON.stringify(given),
    reason,
    by && `by ${by}`,
  ]
    .filter((part) => part !== undefined)
    .join(' ');
  return text.length > LONGEST_DETAIL ? `${text.slice(0, LONGEST_DETAIL - 1)}…` : text;
}
