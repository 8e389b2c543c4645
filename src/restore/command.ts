// `gatehouse restore`
import { type Command, InvalidArgumentError } from 'commander';
import { CommandFailed, plain, type Terminal } from '../management/commands/terminal.ts';
import { loadSettings } from '../settings/load.ts';
import type { RestoreReport } from './restore.ts';

const EXIT_INCOMPLETE = 1;
const PROGRESS_MS = 500;
const MAX_LISTED = 50;

const HELP = `
Run it where Gatehouse runs, with the same settings and environment, after a backup was put back and before any process is started: an older copy of
the store gives access back that was taken away since. It refuses a store that a process uses. It never gives anything back, and can be repeated; if
it was interrupted, Gatehouse does not start before it was repeated.

--replay takes away again what the export of the audit log says was taken away after the backup. Make exports regularly with gatehouse audit export,
without other options than --since, and keep them elsewhere. Without one, --end-all ends all connections, minted tokens and sessions, and keeps the
connectors; who was disabled or blocked after the backup has to be disabled or blocked again.

Exit codes: 0 done, 1 refused or failed, or the export is not complete, 2 wrong usage.

Examples:
  $ gatehouse restore --replay audit.jsonl
  $ gatehouse restore --end-all
  $ gatehouse restore --replay audit.jsonl --json`;

type Options = { replay?: string; endAll?: boolean };

export function addRestoreCommand(program: Command, terminal: Terminal): void {
  program
    .command('restore')
    .description('take away again what a restored store gives back')
    .option('--replay <export>', 'export of the audit log, made with gatehouse audit export')
    .option('--end-all', 'end all connections, minted tokens and sessions')
    .addHelpText('after', HELP)
    .action(async ({ replay, endAll = false }: Options) => {
      if (replay === undefined && !endAll)
        throw new InvalidArgumentError('give --replay with an export, or --end-all');
      const { environment, settingsOptions, print, exitWith, now } = terminal;
      const settings = loadSettings(environment, {
        makesSecrets: false,
        options: settingsOptions(),
      });
      // Imported here, because it loads what changes the store.
      const { restore } = await import('./restore.ts');
      const { RestoreRefused } = await import('./refused.ts');
      const progress = progressLine(terminal);
      const report = await restore(settings, {
        replay,
        endAll,
        now,
        onProgress: progress.show,
      })
        .catch((error: unknown) => {
          if (!(error instanceof RestoreRefused)) throw error;
          if (error.isUsage) throw new InvalidArgumentError(error.message);
          throw new CommandFailed(EXIT_INCOMPLETE, error);
        })
        .finally(progress.end);
      print(report, reportText);
      if (report.problems.length > 0) exitWith(EXIT_INCOMPLETE);
    });
}

function progressLine({ progress }: Pick<Terminal, 'progress'>) {
  let shownAt = -Infinity;
  let isShown = false;
  return {
    show(text: string) {
      if (!progress.isTTY || performance.now() - shownAt < PROGRESS_MS) return;
      shownAt = performance.now();
      isShown = true;
      progress.write(`\r\u001b[K${text}`);
    },
    end() {
      if (isShown) progress.write('\r\u001b[K');
    },
  };
}

function reportText(report: RestoreReport): string {
  const { applied, again, gapMinutes, signInAgain, hints, problems } = report;
  const people = signInAgain.map(
    ({ account = '', clientId = '', connector = '' }) =>
      `  person ${account}, app ${clientId}, connector ${connector}`,
  );
  const more = people.length - MAX_LISTED;
  return [
    ...problems.map((problem) => `Not complete: ${problem}.`),
    `Taken away again: ${applied}. The store had already: ${again}.`,
    ...(gapMinutes === null
      ? []
      : [
          `The export ends ${gapMinutes} minutes ago: what was taken away since then is not known.`,
        ]),
    ...hints.map((hint) => `To do: ${hint}.`),
    ...(people.length === 0
      ? []
      : [`${people.length} connections were made after the backup and have to be made again:`]),
    ...people.slice(0, MAX_LISTED),
    ...(more > 0 ? [`  and ${more} more (--json)`] : []),
  ]
    .map(plain)
    .join('\n');
}
