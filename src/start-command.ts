import type { Command } from 'commander';
import type { Terminal } from './management/commands/terminal.ts';

const HELP = `
Without a settings file, starts a complete trial system with built-in test users. Press Ctrl-C to stop.

Exit codes: 0 stopped, 1 failed, 2 invalid settings.

Examples:
  $ gatehouse start
  $ gatehouse start --upstream http://localhost:3000/mcp
  $ gatehouse start --config /etc/gatehouse.yaml`;

export function addStartCommand(
  program: Command,
  { environment, settingsOptions }: Pick<Terminal, 'environment' | 'settingsOptions'>,
): void {
  program
    .command('start')
    .description('start the server')
    .option(
      '--upstream <url>',
      'your MCP server (default: the one in the settings, or the built-in sample)',
    )
    .option('--new-store', 'begin with a new, empty store in place of one that there was')
    .addHelpText('after', HELP)
    .action(async ({ upstream, newStore }: { upstream?: string; newStore?: boolean }) => {
      // Imported here, because it loads the whole server, which would delay every other command.
      const { runServer } = await import('./main.ts');
      const settings = { ...settingsOptions(), ...(upstream === undefined ? {} : { upstream }) };
      await runServer(environment, settings, { newStore });
    });
}
