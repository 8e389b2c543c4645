import type { Command } from 'commander';
import type { AuditItem } from '../../audit/audit.ts';
import type { ApiResponse } from '../api/operations.ts';
import { nameAndId, type Names } from '../resources/fields.ts';
import { addDeliveryCommands } from './audit-delivery.ts';
import { addExportCommand } from './audit-export.ts';
import { addIntegrityCommands } from './audit-integrity.ts';
import { addAuditFilters, type AuditOptions, auditQueryOf } from './audit-options.ts';
import { parseCount } from './options.ts';
import { second, table, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse audit
  $ gatehouse audit --since 7d --limit 1000
  $ gatehouse audit --account ada@example.com --client Claude --since 24h
  $ gatehouse audit --tool export_cards --since 7d
  $ gatehouse audit --outcome refused --search "Grace"
  $ gatehouse audit --since 2030-01-31T00:00:00Z --json`;

const MAX_DETAIL_CHARACTERS = 60;
const MAX_PAGE_ITEMS = 500;

type Found = Pick<ApiResponse<'listAudit'>, 'items' | 'searched' | 'unreadable'>;

export function addAuditCommand(program: Command, terminal: Terminal): void {
  const { openClient, print, now } = terminal;
  const audit = addAuditFilters(
    program
      .command('audit')
      .description('show calls, sign-ins, approvals and changes, newest first'),
  )
    .option(
      '--search <words>',
      'only items with all of these words in names or texts, of the newest 10,000 that match the other options',
    )
    .option('--limit <number>', 'maximum number of items', parseCount, 100)
    .addHelpText('after', EXAMPLES)
    .action(async (options: AuditOptions & { search?: string; limit: number }) => {
      const client = openClient();
      const filter = { ...(await auditQueryOf(client, options, now())), q: options.search };
      const names = new Map<string, string>();
      const found: Found = { items: [] };
      for (let after: string | undefined; ;) {
        const limit = String(Math.min(options.limit - found.items.length, MAX_PAGE_ITEMS));
        const page = await client.listAudit({ query: { ...filter, limit, after } });
        found.items.push(...page.items);
        if (page.searched !== undefined) found.searched = page.searched;
        if (page.unreadable !== undefined)
          found.unreadable = (found.unreadable ?? 0) + page.unreadable;
        for (const [id, name] of Object.entries(page.names ?? {})) names.set(id, name);
        after = page.next;
        if (after === undefined || found.items.length >= options.limit) break;
      }
      print(found, (list) => auditText(list, names));
    });
  addDeliveryCommands(audit, terminal);
  addExportCommand(audit, terminal);
  addIntegrityCommands(audit, terminal);
}

function auditText({ items, searched, unreadable }: Found, names: Names): string {
  const note = [
    ...(searched === undefined
      ? []
      : [`Searched the newest ${searched} items that match the options.`]),
    ...(unreadable === undefined
      ? []
      : [`Items that cannot be read: ${unreadable} (gatehouse keys rewrap names them).`]),
  ];
  if (items.length === 0) return ['No matching items.', ...note].join('\n');
  const rows = items.map((item: AuditItem) => {
    const { time, event, outcome, by, account, clientId, connector } = item;
    const ids = [by, account, clientId, connector];
    const named = ids.map((id) => nameAndId(names, id) ?? '-');
    return [second(time), event, outcome, ...named, detail(item)];
  });
  const headings = ['TIME', 'EVENT', 'OUTCOME', 'BY', 'ACCOUNT', 'CLIENT', 'CONNECTOR', 'DETAIL'];
  return [table(headings, rows), ...note].join('\n');
}

function detail({ tool, method, arguments: args, argumentsJson, reason }: AuditItem): string {
  const given = argumentsJson ?? (args === undefined ? undefined : JSON.stringify(args));
  const parts = [tool ?? method, given, reason];
  const text = parts.filter((part) => part !== undefined).join(' ');
  return text.length > MAX_DETAIL_CHARACTERS
    ? `${text.slice(0, MAX_DETAIL_CHARACTERS - 1)}…`
    : text;
}
