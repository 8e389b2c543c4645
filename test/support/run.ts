// `npm test`: installs what is missing and runs all test files, or the given ones. `npm run test:soak` adds `--soak`.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join, resolve, sep } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { findProgram, installPrograms, PROGRAMS } from './programs.ts';
import { inMinutes, type Outcome } from './reporter.ts';
import type { SoakResult } from './soak.ts';

const ROOT = join(import.meta.dirname, '../..');
const SOURCE = join(ROOT, 'src') + sep;
const MOCHA = join(ROOT, 'node_modules/mocha/bin/mocha.js');
/** Tests wait for processes, browsers and databases: two for each core leave the cores idle a sixth of the time. */
const JOBS_PER_CORE = 3;
/** Each takes up to 500 MB. */
const MAX_JOBS = 16;
/** For the processes of a parallel run, which use all cores: one that collects garbage on other threads too takes more time in all. */
const PARALLEL_FLAGS = ['--single-threaded-gc'];
/** Folders with the longest files start first, so that no core is idle at the end. */
const FIRST = ['pages', 'packaging', 'flows', 'interoperability'];
/** Folders whose files wait for databases and processes most of the time. They run beside others, which use the cores meanwhile. */
const WAITING = ['scale-out', 'faults', 'store'];
const SLOWEST = 10;
const MEMORY = '/dev/shm';
/** Bytes. */
const MIN_MEMORY = 2e9;

type Options = { jobs: number; grep?: string; soak: boolean; color: boolean };

const program = new Command('npm test --')
  .description(
    'Runs the tests. Installs redis-server, Chromium and Python with apt-get if they are missing.',
  )
  .argument('[files...]', 'test files or patterns (default: all)')
  .option(
    '-j, --jobs <number>',
    'files that run at a time',
    wholeNumber,
    Math.min(availableParallelism() * JOBS_PER_CORE, MAX_JOBS),
  )
  .option('-g, --grep <pattern>', 'only tests whose title matches this regular expression')
  .option('--soak', 'only files with a long form, in that form, one at a time', false)
  .option('--no-color', 'plain text')
  .parse();

/** Files are read once, because they share most modules. */
const importsByFile = new Map<string, string[]>();

const { jobs, grep, soak, color } = program.opts<Options>();
const patterns = program.args.length > 0 ? program.args : ['test/**/*.test.ts'];
const matching = patterns.flatMap((pattern) => globSync(pattern, { cwd: ROOT }));
const files = inOrder(soak ? matching.filter((file) => imports(file, 'soak.ts')) : matching);
if (files.length === 0) program.error(`no test file matches ${patterns.join(' ')}`);
try {
  const installed = installPrograms();
  if (installed.length > 0) console.log(`Installed ${installed.join(' and ')} with apt-get.`);
} catch (error) {
  program.error((error as Error).message);
}
console.log(`With ${PROGRAMS.map((program) => findProgram(program)).join(', ')}`);

const scratch = mkdtempSync(join(temporaryFolder(), 'gatehouse-tests-'));
const outcomeFile = join(scratch, 'outcome.json');
const soakFile = join(scratch, 'soak.jsonl');
const environment: NodeJS.ProcessEnv = {
  ...process.env,
  TMPDIR: scratch,
  // All files, and the processes that they start, compile the source once.
  NODE_COMPILE_CACHE: join(ROOT, 'node_modules/.cache/gatehouse'),
  ...(soak ? { SOAK: '1', SOAK_RESULTS: soakFile } : {}),
};

try {
  const started = Date.now();
  const alone = files.filter((file) => soak || imports(file, 'deadlines.ts'));
  const together = files.filter((file) => !alone.includes(file));
  const outcomes: Outcome[] = [];
  if (together.length > 0) {
    console.log(`${counted(together)}, ${jobs} at a time`);
    // With one job, mocha would not load modules with a top-level await in its parallel mode.
    const options = jobs > 1 ? ['--parallel', `--jobs=${jobs}`] : [];
    const run = () => runMocha(together, options, PARALLEL_FLAGS);
    outcomes.push(
      await (together.some((file) => imports(file, 'chromium.ts')) ? withChromium(run) : run()),
    );
  }
  if (alone.length > 0) {
    console.log(`${counted(alone)}, one at a time${soak ? '' : ', because they measure time'}`);
    outcomes.push(await runMocha(alone, []));
  }
  printSummary(outcomes, Date.now() - started);
  if (soak) printSoakTable();
  const isPassed = outcomes.every(({ failed }) => failed === 0);
  process.exitCode = isPassed && outcomes.some(({ passed }) => passed > 0) ? 0 : 1;
} finally {
  rmSync(scratch, { recursive: true, force: true, maxRetries: 3 });
}

function counted({ length }: string[]): string {
  return `${length} ${length === 1 ? 'file' : 'files'}`;
}

/** Runs with one Chromium for all processes. Its module is loaded only here, because it takes as long as a short run. */
async function withChromium(run: () => Promise<Outcome>): Promise<Outcome> {
  const { serveChromium, SHARED_CHROMIUM } = await import('./chromium.ts');
  const chromium = await serveChromium();
  environment[SHARED_CHROMIUM] = chromium.wsEndpoint();
  try {
    return await run();
  } finally {
    await chromium.close();
    delete environment[SHARED_CHROMIUM];
  }
}

/** In memory where Linux offers enough of it, because databases wait for the disk at every commit. */
function temporaryFolder(): string {
  if (!existsSync(MEMORY)) return tmpdir();
  const { bavail, bsize } = statfsSync(MEMORY);
  return bavail * bsize > MIN_MEMORY ? MEMORY : tmpdir();
}

/** Whether the file imports this module of the support folder, itself or through other modules of the tests. */
function imports(file: string, name: string): boolean {
  const wanted = join(import.meta.dirname, name);
  const seen = new Set<string>();
  const reaches = (path: string): boolean => {
    if (path === wanted) return true;
    if (seen.has(path)) return false;
    seen.add(path);
    return importsOf(path).some(reaches);
  };
  return reaches(resolve(ROOT, file));
}

/** The modules outside `src` that a file imports by path. */
function importsOf(path: string): string[] {
  if (path.startsWith(SOURCE) || !existsSync(path)) return [];
  const known = importsByFile.get(path);
  if (known) return known;
  const found = [...readFileSync(path, 'utf8').matchAll(/from '([./][^']*)'/g)];
  const paths = found.map(([, to = '']) => resolve(dirname(path), to));
  importsByFile.set(path, paths);
  return paths;
}

async function runMocha(
  mochaFiles: string[],
  options: string[],
  nodeFlags: string[] = [],
): Promise<Outcome> {
  rmSync(outcomeFile, { force: true });
  const child = spawn(
    process.execPath,
    [
      ...nodeFlags,
      MOCHA,
      ...options,
      `--reporter=${join(import.meta.dirname, 'reporter.ts')}`,
      `--reporter-option=files=${mochaFiles.length},outcome=${outcomeFile}`,
      ...(grep === undefined ? [] : [`--grep=${grep}`]),
      ...(color ? [] : ['--no-color']),
      ...mochaFiles,
    ],
    { cwd: ROOT, env: environment, stdio: ['ignore', 'inherit', 'inherit'] },
  );
  const forward = (signal: NodeJS.Signals) => void child.kill(signal);
  process.on('SIGINT', forward).on('SIGTERM', forward);
  const [code] = await once(child, 'exit');
  process.off('SIGINT', forward).off('SIGTERM', forward);
  if (existsSync(outcomeFile)) return JSON.parse(readFileSync(outcomeFile, 'utf8'));
  const failures = `Mocha ended before its last test (exit code ${code}).`;
  return { passed: 0, failed: 1, failures, durations: {} };
}

function printSummary(outcomes: Outcome[], milliseconds: number): void {
  const total = (name: 'passed' | 'failed') =>
    outcomes.reduce((sum, outcome) => sum + outcome[name], 0);
  for (const { failures } of outcomes) if (failures !== '') console.log(failures);
  const slowest = outcomes
    .flatMap(({ durations }) => Object.entries(durations))
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, SLOWEST);
  console.log(`\nThe ${slowest.length} slowest files:`);
  for (const [file, duration] of slowest)
    console.log(`${(duration / 1000).toFixed(1).padStart(7)} s  ${file}`);
  console.log(
    `\n${total('passed')} passed, ${total('failed')} failed, in ${inMinutes(milliseconds)}`,
  );
}

function printSoakTable(): void {
  if (!existsSync(soakFile)) return;
  const rows: SoakResult[] = readFileSync(soakFile, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const width = Math.max(...rows.map(({ what }) => what.length));
  console.log('\nWhat held:');
  for (const { what, held } of rows) console.log(`  ${what.padEnd(width)}  ${held}`);
}

/** Alternates between files that wait and others, each in the order of the folders. */
function inOrder(unordered: readonly string[]): string[] {
  const isWaiting = (file: string) => WAITING.includes(folderOf(file));
  const others = unordered.filter((file) => !isWaiting(file)).toSorted(byRank(FIRST));
  const waiting = unordered.filter(isWaiting).toSorted(byRank(WAITING));
  const pairs = others.map((file, index) => [file, ...waiting.slice(index, index + 1)]);
  return [...pairs.flat(), ...waiting.slice(others.length)];
}

function byRank(folders: readonly string[]): (a: string, b: string) => number {
  const rankOf = (file: string) => {
    const rank = folders.indexOf(folderOf(file));
    return rank === -1 ? folders.length : rank;
  };
  return (a, b) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1);
}

function folderOf(file: string): string {
  return file.split(sep)[1] ?? '';
}

function wholeNumber(text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && number > 0) return number;
  throw new InvalidArgumentError('It must be a whole number of at least 1.');
}
