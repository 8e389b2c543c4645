import type { Command } from 'commander';
import { reloadText } from '../resources/settings.ts';
import type { Terminal } from './terminal.ts';

const HELP = `
All processes check the settings first. If one of them cannot follow, none changes, and the error names the setting. Requests in
progress finish under the old settings, and nobody is signed out. Addresses, listeners, roles, the store, the data directory and
the root secret are read at the start only.

Examples:
  $ gatehouse reload --dry-run
  $ gatehouse reload`;

export function addReloadCommand(program: Command, { openClient, print }: Terminal): void {
  program
    .command('reload')
    .description('read settings and secrets again, without a restart')
    .option('--dry-run', 'only say what would change')
    .addHelpText('after', HELP)
    .action(async ({ dryRun = false }: { dryRun?: boolean }) => {
      const report = await openClient().reloadSettings({ body: { dryRun } });
      print(report, (shown) => reloadText(shown, dryRun));
    });
}
