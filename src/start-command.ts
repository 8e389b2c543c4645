import type { Command } from 'commander';
import type { Terminal } from './management/commands/terminal.ts';

const HELP = `
It runs until Ctrl-C or SIGTERM. Without settings it is a complete system for one person to try, with a sample of an MCP
server and an identity provider without passwords. Exit codes: 0 stopped, 1 failed, 2 invalid settings.

Examples:
  $ gatehouse start
  $ gatehouse start --config /etc/gatehouse.yaml --data-dir /var/lib/gatehouse`;

/** Options that change settings belong to `CommandLineSettings`, which the server reads like a settings file. */
export function addStartCommand(program: Command, terminal: Terminal): void {
  program
    .command('start')
    .description('run Gatehouse')
    .addHelpText('after', HELP)
    .action(async () => {
      // Imported here, because it loads the whole server, which would delay every other command.
      const { runServer } = await import('./main.ts');
      await runServer(terminal.environment, terminal.settingsOptions());
    });
}
