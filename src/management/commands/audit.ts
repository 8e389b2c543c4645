import { type Command, Option } from 'commander';
import type { AuditItem } from '../../audit/audit.ts';
import { type AuditEvent, auditEvents } from '../../observability/labels.ts';
import { allItems } from '../api/all-items.ts';
import { addIntegrityCommands } from './audit-integrity.ts';
import { addDeliveryCommands } from './audit-delivery.ts';
import { absoluteTime, parseCount, parseTime, type RelativeOrAbsoluteTime } from './options.ts';
import { nameAndId, type Names } from '../resources/fields.ts';
import { auditNames } from './audit-names.ts';
import { second, table, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse audit
  $ gatehouse audit --since 7d --limit 1000
  $ gatehouse audit --event consent_approved
  $ gatehouse audit --since 2030-01-31T00:00:00Z --json`;

const MAX_DETAIL_CHARACTERS = 60;

type AuditOptions = {
  since?: RelativeOrAbsoluteTime;
  event?: AuditEvent;
  limit: number;
};

export function addAuditCommand(program: Command, terminal: Terminal): void {
  const { openClient, print, now } = terminal;
  const audit = program
    .command('audit')
    .description('show sign-ins, approvals, changes and recorded calls, newest first')
    .option(
      '--since <when>',
      'only items of the last 15m, 24h or 7d, or since an ISO 8601 time',
      parseTime,
    )
    .addOption(new Option('--event <name>', 'only items with this event').choices(auditEvents))
    .option('--limit <number>', 'maximum number of items', parseCount, 100)
    .addHelpText('after', EXAMPLES)
    .action(async ({ since, event, limit }: AuditOptions) => {
      const client = openClient();
      const filter = {
        since: since && absoluteTime(since, now()),
        event,
      };
      const items: AuditItem[] = [];
      const found = allItems((page) => client.listAudit({ query: { ...filter, ...page } }));
      for await (const item of found) {
        items.push(item);
        if (items.length === limit) break;
      }
      const names = await auditNames(client, items);
      print({ items }, (list) => auditText(list, names));
    });
  addDeliveryCommands(audit, terminal);
  addIntegrityCommands(audit, terminal);
}

function auditText({ items }: { items: AuditItem[] }, names: Names): string {
  if (items.length === 0) return 'No matching items.';
  const rows = items.map(({ time, event, outcome, account, clientId, connector, ...rest }) => [
    second(time),
    event,
    outcome,
    ...[rest.by, account, clientId, connector].map((id) => nameAndId(names, id) ?? '-'),
    detail(rest),
  ]);
  return table(
    ['TIME', 'EVENT', 'OUTCOME', 'BY', 'ACCOUNT', 'CLIENT', 'CONNECTOR', 'DETAIL'],
    rows,
  );
}

function detail({ tool, arguments: args, argumentsJson, reason }: Partial<AuditItem>): string {
  const given = argumentsJson ?? (args === undefined ? undefined : JSON.stringify(args));
  const parts = [tool, given, reason];
  const text = parts.filter((part) => part !== undefined).join(' ');
  return text.length > MAX_DETAIL_CHARACTERS
    ? `${text.slice(0, MAX_DETAIL_CHARACTERS - 1)}…`
    : text;
}
