// The table of clients and steps in README.md.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { format, resolveConfig } from 'prettier';

const KINDS = ['program', 'recording'] as const;

export const STEPS = [
  'discover',
  'register',
  'document',
  'authorize',
  'token',
  'call',
  'refresh',
  'step-up',
  'revoke',
  'key',
  'machine',
  'device',
] as const;
export type Step = (typeof STEPS)[number];

/** The proof of a step with an optional note, or the reason why the client does not support it. */
export type Proof = { prove: () => Promise<void>; note?: string } | { notOffered: string };

export type Row = {
  client: string;
  /** A program that runs here, or a recording. */
  kind: (typeof KINDS)[number];
  steps: Record<Step, Proof>;
  close?: () => Promise<void>;
};

export type Cell = { state: 'works' | 'fails' | 'not offered'; note?: string };
export type Result = { client: string; kind: Row['kind']; steps: Record<Step, Cell> };

const START = '<!-- interoperability: npm run interoperability writes what the tests proved -->';
const END = '<!-- end of interoperability -->';
const SIGNS = { works: '✓', fails: '✗', 'not offered': '–' };
const HEADINGS: Record<Step, string> = {
  discover: 'discover',
  register: 'register',
  document: 'metadata document',
  authorize: 'authorize',
  token: 'token',
  call: 'call',
  refresh: 'refresh',
  'step-up': 'step-up',
  revoke: 'revoke',
  key: 'key',
  machine: 'machine',
  device: 'device',
};

const CLAIMS: Record<Step, string> = {
  discover: 'finds every endpoint from the connect link',
  register: 'registers',
  document: 'is identified by its metadata document',
  authorize: 'sends the person to authorize and receives a code',
  token: 'exchanges the code for tokens',
  call: 'calls a tool',
  refresh: 'refreshes its tokens',
  'step-up': 'gets a higher level with the consent of the person',
  revoke: 'connects again after its connection was ended',
  key: 'authenticates with a key',
  machine: 'connects as a machine, without a person',
  device: 'connects a device without a browser',
};

/** `proven` has the results of `claimOf`. */
export function resultsOf(rows: readonly Row[], proven: ReadonlySet<string>): Result[] {
  return rows.map(({ client, kind, steps }) => {
    const cells = STEPS.map((step) => [
      step,
      cellOf(steps[step], proven.has(claimOf(client, step))),
    ]);
    return { client, kind, steps: Object.fromEntries(cells) as Record<Step, Cell> };
  });
}

export function claimOf(client: string, step: Step): string {
  return `${client} ${CLAIMS[step]}`;
}

function cellOf(proof: Proof, isProven: boolean): Cell {
  if ('notOffered' in proof) return { state: 'not offered', note: proof.notOffered };
  if (!isProven) return { state: 'fails' };
  return { state: 'works', ...(proof.note === undefined ? {} : { note: proof.note }) };
}

function resultsFile(kind: Row['kind']): string {
  return join(import.meta.dirname, `../../results/interoperability-${kind}.json`);
}

export async function writeResults(kind: Row['kind'], results: readonly Result[]): Promise<void> {
  const file = resultsFile(kind);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, `${JSON.stringify(results, null, 2)}\n`);
}

/** The results of the last run, in the order of the table. Throws with what to do if there are none. */
export async function readResults(): Promise<Result[]> {
  const read = async (kind: Row['kind']) =>
    JSON.parse(await readFile(resultsFile(kind), 'utf8')) as Result[];
  return (
    await Promise.all(KINDS.map(read)).catch((cause: unknown) => {
      const first =
        'there are no results yet: run npx mocha test/interoperability/{programs,recordings}.test.ts';
      throw new Error(first, { cause });
    })
  ).flat();
}

/** The document with the table. */
export const DOCUMENT = join(import.meta.dirname, 'README.md');

/** Returns `readme` with its table replaced. */
export async function withTable(readme: string, results: readonly Result[]): Promise<string> {
  const [before, after] = [readme.indexOf(START), readme.indexOf(END)];
  if (before < 0 || after < before) throw new Error('the document has no place for the table');
  const table = `${START}\n\n${tableOf(results)}\n\n`;
  const config = await resolveConfig(DOCUMENT);
  return format(readme.slice(0, before) + table + readme.slice(after), {
    ...config,
    parser: 'markdown',
  });
}

function tableOf(results: readonly Result[]): string {
  const notes = [
    ...new Set(results.flatMap(({ steps }) => STEPS.flatMap((step) => steps[step].note ?? []))),
  ];
  const sign = ({ state, note }: Cell) =>
    note === undefined ? SIGNS[state] : `${SIGNS[state]} ${notes.indexOf(note) + 1}`;
  const lines = results.map(({ client, kind, steps }) => [
    kind === 'program' ? `**${client}**` : client,
    ...STEPS.map((step) => sign(steps[step])),
  ]);
  return [
    '<!-- prettier-ignore-start -->\n',
    ...[
      ['client', ...STEPS.map((step) => HEADINGS[step])],
      ['---', ...STEPS.map(() => '---')],
      ...lines,
    ].map((cells) => `| ${cells.join(' | ')} |`),
    '\n<!-- prettier-ignore-end -->\n',
    ...notes.map((note, index) => `${index + 1}. ${note}`),
  ].join('\n');
}
