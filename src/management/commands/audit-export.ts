// Writes the audit log to standard output, as far as somebody reads it.
import { type Command, InvalidArgumentError, Option } from 'commander';
import { EXPORTS } from '../resources/audit.ts';
import { addAuditFilters, type AuditOptions, auditQueryOf } from './audit-options.ts';
import type { Terminal } from './terminal.ts';
import { escapedTexts, writeTexts } from './write-texts.ts';

const HELP = `
Writes everything that matches, oldest first. Without other options than --since and --until, an export as jsonl can be verified without the
store (gatehouse audit verify --file). Cells of csv that a spreadsheet would run as formulas begin with an apostrophe.

Examples:
  $ gatehouse audit export --since 24h > yesterday.jsonl
  $ gatehouse audit export --since 2030-01-01 --until 2030-02-01 --format csv > january.csv
  $ gatehouse audit export --tool export_cards --format csv > calls.csv`;

type ExportOptions = AuditOptions & { format: keyof typeof EXPORTS; search?: string };

const PROGRESS_MS = 500;

export function addExportCommand(audit: Command, terminal: Terminal): void {
  const { openClient, now, output } = terminal;
  addAuditFilters(audit.command('export').description('write the audit log as JSON Lines or CSV'))
    .addOption(new Option('--format <format>').choices(Object.keys(EXPORTS)).default('jsonl'))
    .addHelpText('after', HELP)
    .action(async (_options: unknown, command: Command) => {
      // `gatehouse audit` has the same options, and reads them first.
      const { format, search, ...filters } = command.optsWithGlobals<ExportOptions>();
      if (search !== undefined) throw new InvalidArgumentError('an export has no --search');
      const client = openClient();
      const query = { ...(await auditQueryOf(client, filters, now())), format };
      const sent = await client.exportAudit({ query });
      const texts = format === 'jsonl' ? escapedTexts(sent) : sent;
      await writeTexts(withProgress(texts, terminal), output);
    });
}

async function* withProgress(
  texts: AsyncIterable<string>,
  { progress }: Terminal,
): AsyncGenerator<string> {
  let [lines, shownAt] = [0, 0];
  const show = (end: string) => progress.write(`\r${lines} lines${end}`);
  for await (const text of texts) {
    yield text;
    lines += text.split('\n').length - 1;
    if (!progress.isTTY || Date.now() - shownAt < PROGRESS_MS) continue;
    shownAt = Date.now();
    show('');
  }
  if (progress.isTTY) show('\n');
}
