// What the commands share: flags, the folder of a run, and its end.
import { rmSync } from 'node:fs';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs, type ParseArgsConfig } from 'node:util';

type Flags = NonNullable<ParseArgsConfig['options']>;

const COMMON = {
  help: { type: 'boolean', default: false },
  quick: { type: 'boolean', default: false },
} as const;
export const WRITE = { write: { type: 'boolean', default: false } } as const;

/** Prints `help` and exits for `--help`; ends with the reason for a wrong flag. */
export function readFlags<const More extends Flags>(help: string, more: More) {
  try {
    const { values } = parseArgs<{ options: typeof COMMON & More }>({
      options: { ...COMMON, ...more },
    });
    if ('help' in values && values.help) {
      console.log(help);
      process.exit();
    }
    return values;
  } catch (error) {
    return endWith(error instanceof Error ? error.message : String(error));
  }
}

/** A whole number of a flag. */
export function wholeNumber(flag: string, text: string, min = 1, max = 999_999): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < min || number > max)
    endWith(`--${flag} is a whole number from ${min} to ${max}, not ${text}`);
  return number;
}

/** One of the known values of a flag. */
export function oneOf<Value extends string>(
  flag: string,
  known: readonly Value[],
  text: string,
): Value {
  return (
    known.find((value) => value === text) ?? endWith(`--${flag} is one of ${known.join(', ')}`)
  );
}

/** Prints the reason and exits as for a wrong flag. */
export function endWith(reason: string): never {
  console.error(reason);
  process.exit(2);
}

/** A folder that is removed at the end of the process, also if it is interrupted. */
export async function temporaryFolder(): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'gatehouse-bench-'));
  process.once('exit', () => rmSync(root, { recursive: true, force: true }));
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => process.exit(130));
  return root;
}

/** Replaces what is between `start` and `end` in a document. */
export async function writeBetween(
  document: string,
  [start, end]: readonly [start: string, end: string],
  result: string,
): Promise<void> {
  const text = await readFile(document, 'utf8');
  const from = text.indexOf(start) + start.length;
  const to = text.indexOf(end, from);
  if (from < start.length || to < 0) throw new Error(`${document} has no place for the result`);
  await writeFile(document, `${text.slice(0, from)}${result}${text.slice(to)}`);
}

/** The text block after the comment `<!-- name -->`. */
export const blockOf = (name: string) => [`<!-- ${name} -->\n\n\`\`\`text\n`, '\n```\n'] as const;

/** What Prettier leaves as it is. */
export const IGNORED = [
  '<!-- prettier-ignore-start -->\n\n',
  '\n\n<!-- prettier-ignore-end -->',
] as const;
