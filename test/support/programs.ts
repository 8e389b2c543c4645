// Redis, Chromium and Python, which the tests start and npm does not install: finds them, installs them, or says how to.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';

export type Program = {
  name: string;
  /** An environment variable with the path of the program. */
  variable: string;
  commands: string[];
  /** Where installers put the program outside the PATH. */
  locations: string[];
  /** Of Debian and Ubuntu. */
  packages: string[];
  /** Arguments with which the program succeeds if it has what the tests need. */
  trial?: string[];
};

export const REDIS: Program = {
  name: 'Redis (redis-server)',
  variable: 'REDIS_SERVER_BIN',
  commands: ['redis-server'],
  locations: [
    '/usr/bin/redis-server',
    '/usr/local/bin/redis-server',
    '/opt/homebrew/bin/redis-server',
    '/opt/local/bin/redis-server',
  ],
  packages: ['redis-server'],
};

/** First its headless shell: without the windows of a browser, pages take a third of the processor time. */
export const CHROMIUM: Program = {
  name: 'Chromium or Chrome',
  variable: 'CHROME_BIN',
  commands: [
    'chromium-headless-shell',
    'chromium',
    'chromium-browser',
    'google-chrome-stable',
    'google-chrome',
  ],
  locations: [
    '/usr/bin/chromium-headless-shell',
    '/usr/bin/chromium',
    '/usr/bin/chromium-browser',
    '/usr/bin/google-chrome-stable',
    '/usr/lib/chromium/chromium',
    '/snap/bin/chromium',
    '/opt/google/chrome/chrome',
    '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
    '/Applications/Chromium.app/Contents/MacOS/Chromium',
  ],
  packages: ['chromium-headless-shell'],
};

/** For the recipes. */
export const PYTHON: Program = {
  name: 'Python 3 with PyJWT and cryptography (python3)',
  variable: 'PYTHON_BIN',
  commands: ['python3'],
  locations: ['/usr/bin/python3', '/usr/local/bin/python3', '/opt/homebrew/bin/python3'],
  packages: ['python3', 'python3-jwt', 'python3-cryptography'],
  trial: ['-c', 'import jwt, cryptography'],
};

/** Only the benchmarks that compare proxies start the next two. */
export const NGINX: Program = {
  name: 'nginx',
  variable: 'NGINX_BIN',
  commands: ['nginx'],
  locations: ['/usr/sbin/nginx', '/usr/local/sbin/nginx', '/opt/homebrew/bin/nginx'],
  packages: ['nginx'],
};

export const CADDY: Program = {
  name: 'Caddy',
  variable: 'CADDY_BIN',
  commands: ['caddy'],
  locations: ['/usr/bin/caddy', '/opt/homebrew/bin/caddy'],
  packages: ['caddy'],
};

export const PROGRAMS = [REDIS, CHROMIUM, PYTHON];

/** Returns the path of a program. A variable that names no program is an error, because another one would be a surprise. */
export function findProgram(program: Program): string | undefined {
  const { name, variable, commands, locations } = program;
  const named = process.env[variable];
  if (named) {
    const path = isAbsolute(named) ? named : onPath(named);
    if (path && isExecutable(path)) return path;
    throw new Error(
      `${variable} is ${named}, which is not a program. Set it to ${name}, or unset it.`,
    );
  }
  const found = commands.map(onPath).filter((path) => path !== undefined);
  return [...found, ...locations.filter(isExecutable)].find((path) => isUsable(program, path));
}

function isUsable({ trial }: Program, path: string): boolean {
  return trial === undefined || spawnSync(path, trial, { stdio: 'ignore' }).status === 0;
}

/** Returns the path of a program. Throws with the command that installs it. */
export function requireProgram(program: Program): string {
  const path = findProgram(program);
  if (path === undefined) throw new Error(howToInstall([program]));
  return path;
}

/** Installs what is missing, as root with apt-get. Returns the installed packages. Otherwise throws with the command that installs them. */
export function installPrograms(): string[] {
  const missing = PROGRAMS.filter((program) => findProgram(program) === undefined);
  if (missing.length === 0) return [];
  if (process.getuid?.() !== 0 || onPath('apt-get') === undefined)
    throw new Error(howToInstall(missing));
  const packages = missing.flatMap((program) => program.packages);
  runAptGet(['update']);
  runAptGet(['install', '--yes', '--no-install-recommends', ...packages]);
  const still = missing.filter((program) => findProgram(program) === undefined);
  if (still.length > 0) throw new Error(howToInstall(still));
  return packages;
}

function runAptGet(args: string[]): void {
  const { status, error } = spawnSync('apt-get', args, {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  });
  if (status !== 0)
    throw new Error(`apt-get ${args.join(' ')} failed${error ? `: ${error.message}` : ''}`);
}

/** Names the missing programs, the command on Debian and Ubuntu, and the variables for programs that are installed elsewhere. */
function howToInstall(missing: readonly Program[]): string {
  const packages = missing.flatMap((program) => program.packages).join(' ');
  return [
    `The tests need ${missing.map(({ name }) => name).join(' and ')}. With apt-get:`,
    `  sudo apt-get update && sudo apt-get install --yes ${packages}`,
    `If it is installed already, set ${missing.map(({ variable }) => variable).join(' and ')} to its path.`,
  ].join('\n');
}

function onPath(command: string): string | undefined {
  return (process.env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, command))
    .find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

if (import.meta.main) {
  try {
    const packages = installPrograms();
    if (packages.length > 0) console.log(`Installed ${packages.join(' and ')}.`);
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 1;
  }
}
