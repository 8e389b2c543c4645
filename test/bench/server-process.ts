// Starts, awaits, measures and stops a server under test in a child process.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import manifest from '../../package.json' with { type: 'json' };

export type ServerProcess = {
  pid: number;
  /** Its output so far. */
  output(): string;
  isRunning(): boolean;
  /** Sends SIGTERM and resolves when the process has ended. */
  stop(): Promise<void>;
};

const REPOSITORY = join(import.meta.dirname, '../..');
const [, ...WORDS] = manifest.scripts.start.split(' ');
const V8_FLAGS = WORDS.filter((word) => word.startsWith('--'));
const [, ...AFTER_PROGRAM] = WORDS.slice(V8_FLAGS.length);
/** What the package and the image run, with the flags and words of `npm start`. */
export const MAIN = 'dist/cli.js';
export const COMMAND = AFTER_PROGRAM;
/** What src/gatehouse.js sets. */
export const PRODUCTION_ENVIRONMENT = { MALLOC_ARENA_MAX: '2' };
let isBuilt = false;
export const FLAGS = ['--import', './src/compile-cache.js', ...V8_FLAGS];
const POLL_MS = 5;
const STARTING_MS = 30_000;

/** Bundles the program of the package. */
export function buildOnce(): void {
  if (!isBuilt) execFileSync(process.execPath, ['.ci/build.ts'], { cwd: REPOSITORY });
  isBuilt = true;
}

/**
 * `script` is relative to the repository; it runs with the flags of `npm start` by default. Output goes to a file in `directory`, so that
 * logging costs as much as in production.
 */
export function startProcess(
  script: string,
  { args = [], environment = {}, flags = FLAGS, directory }: ProcessOptions,
): ServerProcess {
  return startProgram(process.execPath, [...flags, script, ...args], { environment, directory });
}

export function startProgram(
  program: string,
  args: readonly string[],
  { environment, directory }: { environment: Record<string, string>; directory: string },
): ServerProcess {
  const log = join(directory, 'output');
  const file = openSync(log, 'w');
  const child = spawn(program, args, {
    cwd: REPOSITORY,
    env: { ...inherited(), ...environment },
    stdio: ['ignore', file, file],
  });
  closeSync(file);
  const killAtExit = () => child.kill('SIGKILL');
  // Runs before the folders are removed.
  process.prependOnceListener('exit', killAtExit);
  const isRunning = () => child.exitCode === null && child.signalCode === null;
  return {
    pid: child.pid ?? 0,
    output: () => readFileSync(log, 'utf8'),
    isRunning,
    async stop() {
      process.off('exit', killAtExit);
      if (!isRunning()) return;
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
    },
  };
}

type ProcessOptions = {
  args?: string[];
  environment?: Record<string, string>;
  flags?: readonly string[];
  directory: string;
};

/** Removes settings of the current shell from the environment. */
function inherited(): Record<string, string | undefined> {
  const entries = Object.entries(process.env);
  return Object.fromEntries(entries.filter(([name]) => !name.startsWith('GATEHOUSE_')));
}

/** Resolves at the first 200 of `url`. Rejects with the process's output if it ends or takes too long. */
export async function untilAnswered(server: ServerProcess, url: string): Promise<void> {
  await untilTrue(server, url, () => answersOk(url));
}

/** Resolves to the capture of `pattern` as soon as it is printed. */
export async function untilPrinted(server: ServerProcess, pattern: RegExp): Promise<string> {
  await untilTrue(server, String(pattern), async () => pattern.test(server.output()));
  return pattern.exec(server.output())?.[1] ?? '';
}

async function untilTrue(
  server: ServerProcess,
  what: string,
  isTrue: () => Promise<boolean>,
): Promise<void> {
  const deadline = performance.now() + STARTING_MS;
  while (!(await isTrue())) {
    if (!server.isRunning() || performance.now() > deadline)
      throw new Error(`waited in vain for ${what}:\n${server.output()}`);
    await delay(POLL_MS);
  }
}

async function answersOk(url: string): Promise<boolean> {
  try {
    const response = await fetch(url);
    await response.body?.cancel();
    return response.status === 200;
  } catch {
    return false;
  }
}

/** The resident memory of a process and its children in bytes; NaN after it ended. */
export async function residentMemory({ pid }: { pid: number }): Promise<number> {
  const args = ['-o', 'rss=', '-p', String(pid), '--ppid', String(pid)];
  const found = await promisify(execFile)('ps', args).catch(() => undefined);
  const kilobytes = found?.stdout.trim().split('\n').map(Number) ?? [NaN];
  return kilobytes.reduce((sum, each) => sum + each, 0) * 1024;
}

/** Linux counts processor time in hundredths of a second. */
const TICK_MS = 10;

/** The processor time of a process since its start, in milliseconds: user and system (proc(5), utime and stime). */
export function cpuTime(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // After the name, which may have spaces.
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  return (Number(user) + Number(system)) * TICK_MS;
}
