// `npm test`: installs what is missing and runs all test files, or the given ones, in parallel.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, sep } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { CHROMIUM, findProgram, installPrograms, REDIS } from './programs.ts';

const ROOT = join(import.meta.dirname, '../..');
const MOCHA = join(ROOT, 'node_modules/mocha/bin/mocha.js');
/** Some tests compare times and fail when several files share a core. */
const JOBS_PER_CORE = 1;
/** Folders with the longest files start first, so that no core is idle at the end. */
const FIRST = ['pages', 'scale-out', 'faults', 'bench', 'store', 'flows'];

type Options = { jobs: number; grep?: string; color: boolean };

const program = new Command('npm test --')
  .description(
    'Runs the tests. Installs redis-server and Chromium with apt-get if they are missing.',
  )
  .argument('[files...]', 'test files or patterns (default: all)')
  .option(
    '-j, --jobs <number>',
    'files that run at a time',
    wholeNumber,
    availableParallelism() * JOBS_PER_CORE,
  )
  .option('-g, --grep <pattern>', 'only tests whose title matches this regular expression')
  .option('--no-color', 'plain text')
  .parse();

const { jobs, grep, color } = program.opts<Options>();
const patterns = program.args.length > 0 ? program.args : ['test/**/*.test.ts'];
const files = patterns.flatMap((pattern) => globSync(pattern, { cwd: ROOT })).toSorted(byFolder);
if (files.length === 0) program.error(`no test file matches ${patterns.join(' ')}`);
try {
  const installed = installPrograms();
  if (installed.length > 0) console.log(`Installed ${installed.join(' and ')} with apt-get.`);
} catch (error) {
  program.error((error as Error).message);
}
console.log(
  `${files.length} files, ${jobs} at a time, with ${[REDIS, CHROMIUM].map((name) => findProgram(name)).join(' and ')}`,
);
const child = spawn(
  process.execPath,
  [
    MOCHA,
    '--parallel',
    `--jobs=${jobs}`,
    `--reporter=${join(import.meta.dirname, 'reporter.ts')}`,
    `--reporter-option=files=${files.length}`,
    ...(grep === undefined ? [] : [`--grep=${grep}`]),
    ...(color ? [] : ['--no-color']),
    ...files,
  ],
  { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit'] },
);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
const [code] = await once(child, 'exit');
process.exitCode = code ?? 1;

function byFolder(a: string, b: string): number {
  return rankOf(a) - rankOf(b) || (a < b ? -1 : 1);
}

function rankOf(file: string): number {
  const rank = FIRST.indexOf(file.split(sep)[1] ?? '');
  return rank === -1 ? FIRST.length : rank;
}

function wholeNumber(text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && number > 0) return number;
  throw new InvalidArgumentError('It must be a whole number of at least 1.');
}
