import { createReadStream } from 'node:fs';
import { type Command, InvalidArgumentError } from 'commander';
import { type Document, isNode, LineCounter, type Node, parseDocument, stringify } from 'yaml';
import { ManagementError } from '../api/management-error.ts';
import {
  appliedText,
  changesAnything,
  KINDS,
  MAX_FILE_BYTES,
  type SentFile,
} from '../resources/apply.ts';
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
      const text = await readText(file, terminal);
      const source = parseSource(text, file === '-' ? 'standard input' : file);
      const query = {
        ...(dryRun ? { dryRun: 'true' as const } : {}),
        ...(prune ? { prune: prune === true ? ('true' as const) : prune } : {}),
        ...(pruneLimit === undefined ? {} : { pruneLimit }),
      };
      const body = contentOf(source);
      const applied = await openClient()
        .applyFile({ query, body })
        .catch((error: unknown) => {
          throw withLines(error, source);
        });
      print(applied, (shown) => appliedText(shown, dryRun));
      const results = KINDS.flatMap((kind) => applied[kind]);
      if (results.some(({ action }) => action === 'failed')) exitWith(EXIT_FAILED);
      else if (dryRun && exitCode && changesAnything(applied)) exitWith(EXIT_CHANGES);
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

/** Reads no more than the limit. */
async function readText(file: string, { input = process.stdin }: Terminal): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of file === '-' ? input : createReadStream(file)) {
      chunks.push(Buffer.from(chunk));
      length += chunks.at(-1)?.length ?? 0;
      if (length > MAX_FILE_BYTES) break;
    }
  } catch (error) {
    throw invalid(`${file} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  if (length > MAX_FILE_BYTES) throw tooLarge(file);
  return Buffer.concat(chunks).toString('utf8');
}

type Source = { file: string; document: Document; lines: LineCounter };

/** Throws ManagementError that names the first lines with a mistake. */
function parseSource(text: string, file: string): Source {
  const lines = new LineCounter();
  const document = parseDocument(text, { prettyErrors: false, lineCounter: lines });
  const issues = [...document.errors, ...document.warnings].slice(0, 10).map(({ message, pos }) => {
    const { line, col } = lines.linePos(pos[0]);
    return `${file}, line ${line}, column ${col}: ${message}`;
  });
  if (issues.length > 0) throw invalid(issues.join('\n'));
  return { file, document, lines };
}

/** Aliases repeat what they name, so a small file can say very much. */
function contentOf({ file, document }: Source): SentFile {
  let size = 0;
  const count = (name: string, value: unknown) => {
    size += name.length + (typeof value === 'string' ? value.length : 1);
    if (size > MAX_FILE_BYTES) throw tooLarge(file);
    return value;
  };
  try {
    return JSON.parse(JSON.stringify(document.toJS({ maxAliasCount: -1 }), count) ?? 'null');
  } catch (error) {
    if (error instanceof ManagementError) throw error;
    throw invalid(`${file} has a record that is part of itself`);
  }
}

/** Adds the lines of the records to the problems that the API names. */
function withLines(error: unknown, { file, document, lines }: Source): unknown {
  if (!(error instanceof ManagementError) || error.issues.length === 0) return error;
  const problems = error.issues.map((issue) => {
    const path = /^[a-zA-Z]+(\.\w+)*(?=: )/.exec(issue)?.[0].split('.') ?? [];
    const node = nodeAt(document, path);
    return node?.range
      ? `${file}, line ${lines.linePos(node.range[0]).line}: ${issue}`
      : `${file}: ${issue}`;
  });
  return new ManagementError(error.code, problems.join('\n'));
}

/** The node of the member, or of the record if the member is absent. */
function nodeAt(document: Document, path: readonly string[]): Node | undefined {
  for (let length = path.length; length > 0; length -= 1) {
    const node = document.getIn(path.slice(0, length), true);
    if (isNode(node)) return node;
  }
  return undefined;
}

function tooLarge(file: string): ManagementError {
  return invalid(`${file} is larger than ${MAX_FILE_BYTES / 1024 / 1024} MB`);
}

function invalid(message: string): ManagementError {
  return new ManagementError('invalid_request', message);
}
