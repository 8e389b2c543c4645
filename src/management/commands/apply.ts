import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { type Command, InvalidArgumentError } from 'commander';
import { LineCounter, parseDocument, stringify } from 'yaml';
import { ManagementError } from '../api/management-error.ts';
import { appliedText, type SentFile, isChange, KINDS, MAX_FILE_BYTES } from '../resources/apply.ts';
import type { Terminal } from './terminal.ts';

const HELP = `
The file has the lists connectors, machines and clientRules, in YAML or JSON, as gatehouse export prints it. A record keeps its key
in the file, and has the members of the API. Nothing is changed if one record is invalid. Applying a file again changes nothing.

--prune ends the records with a key that are absent from a list of the file. An empty list ends all of them, a missing list none.
--prune=all also ends those that no file made.

Exit codes: 0 done, 1 refused or a record failed, 2 wrong usage, 3 with --dry-run --exit-code if something would change.

Examples:
  $ gatehouse export > access.yaml
  $ gatehouse apply -f access.yaml --dry-run
  $ gatehouse apply -f access.yaml --prune`;

const EXIT_FAILED = 1;
const EXIT_CHANGES = 3;

type Options = {
  file: string;
  dryRun?: boolean;
  prune?: true | 'all';
  pruneLimit?: string;
  exitCode?: boolean;
};

export function addApplyCommands(program: Command, terminal: Terminal): void {
  const { openClient, print, exitWith } = terminal;
  program
    .command('apply')
    .description('make connectors, machines and app rules equal to a file')
    .requiredOption('-f, --file <file>', 'YAML or JSON file; - is standard input')
    .option('--dry-run', 'only say what would change, and who would lose access')
    .option(
      '--prune [all]',
      'end the records that are absent from the lists of the file',
      parsePrune,
    )
    .option('--prune-limit <number>', 'the most records that may end', parseLimit)
    .option('--exit-code', 'with --dry-run: exit with 3 if something would change')
    .addHelpText('after', HELP)
    .action(async ({ file, dryRun = false, prune, pruneLimit, exitCode }: Options) => {
      const body = parseFile(await readText(file, terminal), file);
      const query = {
        ...(dryRun ? { dryRun: 'true' as const } : {}),
        ...(prune ? { prune: prune === true ? ('true' as const) : prune } : {}),
        ...(pruneLimit === undefined ? {} : { pruneLimit }),
      };
      const applied = await openClient().applyFile({ query, body });
      print(applied, (shown) => appliedText(shown, dryRun));
      const results = KINDS.flatMap((kind) => applied[kind]);
      if (results.some(({ action }) => action === 'failed')) exitWith(EXIT_FAILED);
      else if (dryRun && exitCode && results.some(isChange)) exitWith(EXIT_CHANGES);
    });
  program
    .command('export')
    .description('print connectors, machines and app rules as a file for gatehouse apply')
    .addHelpText('after', '\nThe file has no secrets, and is the same as long as nothing changes.')
    .action(async () => {
      print(await openClient().exportFile(), (file) => stringify(file).trimEnd());
    });
}

function parsePrune(text: string): 'all' {
  if (text === 'all') return text;
  throw new InvalidArgumentError('Use --prune or --prune=all.');
}

function parseLimit(text: string): string {
  if (/^\d{1,5}$/.test(text)) return text;
  throw new InvalidArgumentError('Use a whole number.');
}

async function readText(file: string, { input }: Terminal): Promise<string> {
  const bytes = file === '-' ? await readInput(input) : await readNamed(file);
  if (bytes.length > MAX_FILE_BYTES)
    throw invalid(`${file} is larger than ${MAX_FILE_BYTES / 1024 / 1024} MB`);
  return bytes.toString('utf8');
}

async function readNamed(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw invalid(`${file} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

/** Stops reading above the limit. */
async function readInput(input: Readable = process.stdin): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of input) {
    chunks.push(Buffer.from(chunk));
    length += chunks.at(-1)?.length ?? 0;
    if (length > MAX_FILE_BYTES) break;
  }
  return Buffer.concat(chunks);
}

/** Throws ManagementError that names the first lines with a mistake. */
function parseFile(text: string, file: string): SentFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { prettyErrors: false, lineCounter: lines });
  const issues = [...document.errors, ...document.warnings].slice(0, 10).map(({ message, pos }) => {
    const { line, col } = lines.linePos(pos[0]);
    return `${file}, line ${line}, column ${col}: ${message}`;
  });
  if (issues.length > 0) throw invalid(issues.join('\n'));
  try {
    return document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (error) {
    throw invalid(`${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Of an anchor, counted with those within it. */
const MAX_ALIASES = 1000;

function invalid(message: string): ManagementError {
  return new ManagementError('invalid_request', message);
}
