import type { Command } from 'commander';
import type { Terminal } from './management/commands/terminal.ts';

const HELP = `
Runs until Ctrl-C or SIGTERM. Without settings, it is a complete system to try out, with an identity provider without
passwords, in front of your MCP server (--upstream) or the built-in sample. Exit codes: 0 stopped, 1 failed, 2 invalid settings.

Examples:
  $ gatehouse start
  $ gatehouse start --upstream http://localhost:3000/mcp
  $ gatehouse start --config /etc/gatehouse.yaml --data-dir /var/lib/gatehouse`;

export function addStartCommand(program: Command, terminal: Terminal): void {
  program
    .command('start')
    .description('run Gatehouse')
    .option(
      '--upstream <url>',
      'your MCP server; without a settings file, annotations set the levels of its tools',
    )
    .addHelpText('after', HELP)
    .action(async ({ upstream }: { upstream?: string }) => {
      // Imported here, because it loads the whole server, which would delay every other command.
      const { runServer } = await import('./main.ts');
      await runServer(terminal.environment, {
        ...terminal.settingsOptions(),
        ...(upstream === undefined ? {} : { upstream }),
      });
    });
}
