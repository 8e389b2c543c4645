// Runs the command of a command line.
import { Console } from 'node:console';
import type { Writable } from 'node:stream';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { ManagementError } from './management/api/management-error.ts';
import { CommandFailed, jsonText, plain, type Terminal } from './management/commands/terminal.ts';
import type { CommandLineSettings, Environment } from './settings/environment.ts';
import { SettingsError } from './settings/issues.ts';
import { addStartCommand } from './start-command.ts';
import { version } from './version.ts';

const EXIT_FAILED = 1;
const EXIT_WRONG_USAGE = 2;
const DEFAULT_WIDTH = 80;

const HELP = `
Examples:
  $ gatehouse init
  $ gatehouse start
  $ gatehouse connector create --name "Ops" --level operations
  $ gatehouse audit --since 24h --json
  $ gatehouse doctor

Most commands call a running Gatehouse. They read its address from GATEHOUSE_MANAGEMENT_URL or the settings file,
and the management key from GATEHOUSE_MANAGEMENT_KEY or management.key in the data directory.

Exit codes: 0 success, 1 refused or failed, 2 wrong usage.`;

type Output = Writable & { isTTY?: boolean; columns?: number };

/** `environment` is that of the process by default. */
export type Surroundings = {
  /** For commands that ask. */
  stdin?: Terminal['input'];
  stdout: Output;
  stderr: Output;
  environment?: Environment;
  /** For doctor, in milliseconds. Tests raise it, because their machine may be busy. */
  maxRedisLatency?: number;
};

/** Runs the command in `words` and returns the exit code. */
export async function runCommandLine(words: string[], surroundings: Surroundings): Promise<number> {
  const { stdout, stderr, environment, maxRedisLatency } = surroundings;
  const console = new Console(stdout, stderr);
  let exitCode = 0;
  const program = new Command('gatehouse')
    .description('run and manage Gatehouse')
    .version(version, '--version', 'print the version')
    .option('--json', 'print results and errors as JSON')
    .option('--config <file>', 'settings file (default: GATEHOUSE_CONFIG)', parsePath)
    .option('--data-dir <directory>', 'data directory (default: GATEHOUSE_DATA_DIR)', parsePath)
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      getOutHelpWidth: () => widthOf(stdout),
      getErrHelpWidth: () => widthOf(stderr),
      // `reportError` prints every error.
      outputError: () => {},
    })
    .exitOverride()
    .addHelpText('after', HELP);
  const options = () => program.opts<{ json?: boolean } & CommandLineSettings>();
  const isJson = () => options().json === true;
  const report: Report = (code, description) =>
    console.error(
      isJson()
        ? JSON.stringify({ error: code, error_description: description })
        : `gatehouse: ${description.split('\n').map(plain).join('\n')}`,
    );
  try {
    if (program.parseOptions(words).operands[0] === 'start') {
      addStartCommand(program, { environment, settingsOptions: options });
    } else {
      // Imported here, because the other commands would take a quarter of the start of the server.
      const { addCommands, openClient } = await import('./commands.ts');
      addCommands(program, {
        environment,
        settingsOptions: options,
        ...(maxRedisLatency === undefined ? {} : { maxRedisLatency }),
        openClient: () => openClient(environment, options()),
        write: (text) => console.log(text),
        print: (result, text) => console.log(isJson() ? jsonText(result) : text(result)),
        // Reading `stdin` of a process opens it.
        get input() {
          return surroundings.stdin;
        },
        output: stdout,
        progress: stderr,
        exitWith: (code) => {
          exitCode = code;
        },
        now: () => Math.floor(Date.now() / 1000),
      });
    }
    await program.parseAsync(escapeIds(words, optionsOf(program)), { from: 'user' });
    return exitCode;
  } catch (error) {
    return reportError(error, report);
  }
}

function parsePath(text: string): string {
  if (text !== '') return text;
  throw new InvalidArgumentError('Give a path.');
}

function widthOf({ isTTY, columns = DEFAULT_WIDTH }: Output): number {
  return isTTY ? columns : DEFAULT_WIDTH;
}

type CommandOption = { long: string; needsValue: boolean };

/** The options of all commands, for example `--account`. */
function optionsOf(command: Command): CommandOption[] {
  const own = command.options.map(({ long, required }) => ({
    long: long ?? '',
    needsValue: required,
  }));
  return [...own, ...command.commands.flatMap(optionsOf)];
}

/** As long as the shortest of them. */
const DASHED_ID = /^-[\w-]{21,}$/;

/**
 * Ids may start with a dash. Joins such an id with the option before it (`--account=-9V…`) or moves it behind `--`, so that it is not parsed as
 * an option.
 */
function escapeIds(words: string[], options: readonly CommandOption[]): string[] {
  const isOption = (word: string) => options.some(({ long }) => long === word);
  const needsValue = (word: string) =>
    options.some(({ long, needsValue: needs }) => needs && long === word);
  const escaped: string[] = [];
  const ids: string[] = [];
  for (const word of words) {
    const last = escaped.at(-1) ?? '';
    if (!DASHED_ID.test(word) || isOption(word)) escaped.push(word);
    else if (needsValue(last)) escaped.splice(-1, 1, `${last}=${word}`);
    else ids.push(word);
  }
  return ids.length === 0 ? escaped : [...escaped, '--', ...ids];
}

type Report = (error: string, description: string) => void;

/** Returns the exit code. */
function reportError(error: unknown, report: Report): number {
  if (!(error instanceof CommanderError)) {
    const cause = error instanceof CommandFailed ? error.cause : error;
    report(codeOf(cause), error instanceof Error ? error.message : String(error));
    return error instanceof CommandFailed ? error.exitCode : EXIT_FAILED;
  }
  const isHelp = error.code === 'commander.help' || error.exitCode === 0;
  if (!isHelp) report('wrong_usage', error.message.replace(/^error: /, ''));
  return error.exitCode === 0 ? 0 : EXIT_WRONG_USAGE;
}

function codeOf(error: unknown): string {
  if (error instanceof ManagementError) return error.code;
  return error instanceof SettingsError ? 'invalid_settings' : 'failed';
}
