import type { Command } from 'commander';
import type { CommandLineSettings } from './settings/environment.ts';
import type { Terminal } from './management/commands/terminal.ts';

const HELP = `
Without a settings file, starts a complete trial system with built-in test users. Press Ctrl-C to stop.

Signals: SIGTERM stops after the requests in progress, SIGHUP reads the settings again, and SIGUSR2 restarts the workers one after the other.

Exit codes: 0 stopped, 1 failed, 2 invalid settings.

Examples:
  $ gatehouse start
  $ gatehouse start --upstream http://localhost:3000/mcp
  $ gatehouse start --config /etc/gatehouse.yaml
  $ gatehouse start --workers auto`;

/** Settings. */
type StartOptions = Pick<CommandLineSettings, 'upstream' | 'workers'>;

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
    .option(
      '--workers <number|auto>',
      'processes that share the listeners, one for each core with auto (only with Redis)',
    )
    .addHelpText('after', HELP)
    .action(async ({ newStore, ...given }: { newStore?: boolean } & StartOptions) => {
      // Imported here, because it loads the whole server, which would delay every other command.
      const { runServer } = await import('./main.ts');
      await runServer(environment, { ...settingsOptions(), ...given }, { newStore });
    });
}
