#!/usr/bin/env node
import './settings/library-debug.ts';
import { Command, CommanderError } from 'commander';
import { addDoctorCommand } from './doctor/command.ts';
import { managementClient, ManagementError } from './management/api/client.ts';
import { addAccountCommands } from './management/commands/account.ts';
import { addAuditCommand } from './management/commands/audit.ts';
import { addClientCommands } from './management/commands/client.ts';
import { addCompletionCommand } from './management/commands/completion.ts';
import { addConnectorCommands } from './management/commands/connector.ts';
import { addGrantCommands } from './management/commands/grant.ts';
import { addKeysCommands } from './management/commands/keys.ts';
import { jsonText, plain, type Terminal } from './management/commands/terminal.ts';
import { addTokenCommands } from './management/commands/token.ts';
import { findManagementAccess } from './settings/management-access.ts';
import { SettingsError } from './settings/issues.ts';

const EXIT_FAILED = 1;
const EXIT_WRONG_USAGE = 2;

const HELP = `
Examples:
  $ gatehouse connector create --name "Ops" --level operations
  $ gatehouse connector list --json
  $ gatehouse account list
  $ gatehouse grant why <id>
  $ gatehouse token mint --name "Nightly report" --level analytics
  $ gatehouse keys rotate
  $ gatehouse audit --since 24h
  $ gatehouse doctor

The commands call a running Gatehouse. Its address comes from GATEHOUSE_MANAGEMENT_URL or the settings file, and its
management key from GATEHOUSE_MANAGEMENT_KEY or the file management.key in the data directory (GATEHOUSE_DATA_DIR).

Exit codes: 0 success, 1 refused or failed, 2 wrong usage.`;

const program = new Command('gatehouse')
  .description('manage Gatehouse from the command line')
  .option('--json', 'print results and errors as JSON')
  .configureHelp({ showGlobalOptions: true })
  // `fail` prints every error.
  .configureOutput({ outputError: () => {} })
  .exitOverride()
  .addHelpText('after', HELP);

const isJson = () => program.opts<{ json?: boolean }>().json === true;

const terminal: Terminal = {
  openClient: () => managementClient(findManagementAccess()),
  print: (result, text) => console.log(isJson() ? jsonText(result) : text(result)),
  now: () => Math.floor(Date.now() / 1000),
};

addConnectorCommands(program, terminal);
addAccountCommands(program, terminal);
addGrantCommands(program, terminal);
addClientCommands(program, terminal);
addTokenCommands(program, terminal);
addKeysCommands(program, terminal);
addAuditCommand(program, terminal);
addDoctorCommand(program, terminal);
addCompletionCommand(program);

// The reader may close the pipe early: `gatehouse connector list | head -1`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

try {
  await program.parseAsync(idsLast(process.argv.slice(2)), { from: 'user' });
} catch (error) {
  process.exitCode = fail(error);
}

/** Moves ids that start with a dash behind `--`, so that they are not parsed as options. Options are shorter. */
function idsLast(words: string[]): string[] {
  const ids = words.filter((word) => /^-[\w-]{26,}$/.test(word));
  if (ids.length === 0) return words;
  return [...words.filter((word) => !ids.includes(word)), '--', ...ids];
}

function fail(error: unknown): number {
  if (!(error instanceof CommanderError)) {
    report(codeOf(error), error instanceof Error ? error.message : String(error));
    return EXIT_FAILED;
  }
  const isHelp = error.code === 'commander.help' || error.exitCode === 0;
  if (!isHelp) report('wrong_usage', error.message.replace(/^error: /, ''));
  return error.exitCode === 0 ? 0 : EXIT_WRONG_USAGE;
}

function codeOf(error: unknown): string {
  if (error instanceof ManagementError) return error.code;
  return error instanceof SettingsError ? 'invalid_settings' : 'failed';
}

function report(error: string, description: string): void {
  const text = description.split('\n').map(plain).join('\n');
  console.error(
    isJson() ? JSON.stringify({ error, error_description: description }) : `gatehouse: ${text}`,
  );
}
