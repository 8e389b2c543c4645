#!/usr/bin/env node
// The program `gatehouse`, in a checkout and in the package. Plain JavaScript that every version of Node parses, so that an old one gets an
// error message.
import { existsSync, readFileSync } from 'node:fs';

const SERVER_COMMANDS = ['start', 'doctor'];
/**
 * Node would otherwise let the heap grow with the memory of the machine. V8 would allocate objects of one request as if they lived long, which
 * takes half of the time of a proxied call for garbage collection. And in a process that had no requests for some seconds, it would give memory
 * back, and with it what compiled code depends on: the next thousands of calls would take half as much time again. By default, it would mark the
 * whole heap each time that it has grown by a fifth, on other threads, for almost a tenth of the processor time of a busy process.
 */
const SERVER_FLAGS = [
  '--max-semi-space-size=4',
  '--max-old-space-size=768',
  '--no-allocation-site-pretenuring',
  '--no-memory-reducer',
  '--heap-growing-percent=50',
];
/** With glibc's default, freed memory of one thread is not used by the others: a process takes 30 MB more. Read when a process starts. */
const SERVER_ENVIRONMENT = { MALLOC_ARENA_MAX: '2' };
/** Node 22 warns that its SQLite is experimental. */
const FLAGS_OF_NODE_22 = ['--disable-warning=ExperimentalWarning'];

const isServer = process.argv.slice(2).some((word) => SERVER_COMMANDS.includes(word));
const { engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
const [requiredVersion] = /[\d.]+/.exec(engines.node);
const { node: version } = process.versions;

if (isOlder(version, requiredVersion)) {
  console.error(
    `gatehouse: Node ${requiredVersion} or later is required, and this is Node ${version}; get a newer one at https://nodejs.org.`,
  );
  process.exitCode = 1;
} else {
  runProgram();
}

function isOlder(version, required) {
  const numbers = version.split('.').map(Number);
  const wanted = required.split('.').map(Number);
  const different = wanted.findIndex((number, n) => number !== numbers[n]);
  return different !== -1 && numbers[different] < wanted[different];
}

async function runProgram() {
  if (isServer && process.execve) restartIfNeeded();
  // These ask a server to read its settings, which it has not read yet, and to restart its workers, which it is about to start. Without a listener they
  // would end the process.
  if (process.argv.includes('start'))
    for (const signal of ['SIGHUP', 'SIGUSR2']) process.on(signal, () => undefined);
  await import('./compile-cache.js');
  const isCheckout = existsSync(new URL('cli.ts', import.meta.url));
  await import(isCheckout ? './cli.ts' : '../dist/cli.js');
}

/** With what the caller did not set, for example in `NODE_OPTIONS`. */
function restartIfNeeded() {
  const flags = missingFlags();
  const environment = { ...SERVER_ENVIRONMENT, ...process.env };
  const isComplete = Object.keys(environment).every((name) => name in process.env);
  if (flags.length > 0 || !isComplete) restart(flags, environment);
}

function missingFlags() {
  const given = `${process.execArgv.join(' ')} ${process.env.NODE_OPTIONS}`.replaceAll('_', '-');
  const flags = isOlder(version, '24.0.0') ? [...SERVER_FLAGS, ...FLAGS_OF_NODE_22] : SERVER_FLAGS;
  return flags.filter((flag) => !given.includes(flag.split('=')[0]));
}

/** Replaces the program in the same process. Does not return. */
function restart(flags, environment) {
  const args = [...flags, ...process.execArgv, ...process.argv.slice(1)];
  process.execve(process.execPath, [process.execPath, ...args], environment);
}
