// Redis, Chromium and Python, which the tests start and npm does not install: finds them, installs them, or says how to.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';

type Program = {
  name: string;
  /** An environment variable with the path of the program. */
  variable: string;
  commands: string[];
  /** Where installers put the program outside the PATH. */
  locations: string[];
  packages: Record<PackageManager, string>;
};

type PackageManager = keyof typeof INSTALL;

/** Commands that install packages, by the program that a system has. */
const INSTALL = {
  'apt-get': 'sudo apt-get update && sudo apt-get install --yes',
  dnf: 'sudo dnf install --assumeyes',
  pacman: 'sudo pacman --sync --noconfirm',
  zypper: 'sudo zypper install --no-confirm',
  apk: 'sudo apk add',
  brew: 'brew install',
} as const;

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
  packages: {
    'apt-get': 'redis-server',
    dnf: 'redis',
    pacman: 'redis',
    zypper: 'redis',
    apk: 'redis',
    brew: 'redis',
  },
};

export const CHROMIUM: Program = {
  name: 'Chromium or Chrome',
  variable: 'CHROME_BIN',
  commands: ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome'],
  locations: [
    '/usr/bin/chromium',
    '/usr/bin/chromium-browser',
    '/usr/bin/google-chrome-stable',
    '/usr/lib/chromium/chromium',
    '/snap/bin/chromium',
    '/opt/google/chrome/chrome',
    '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
    '/Applications/Chromium.app/Contents/MacOS/Chromium',
  ],
  packages: {
    'apt-get': 'chromium',
    dnf: 'chromium',
    pacman: 'chromium',
    zypper: 'chromium',
    apk: 'chromium',
    brew: 'chromium',
  },
};

/** For a recipe. */
export const PYTHON: Program = {
  name: 'Python 3 (python3)',
  variable: 'PYTHON_BIN',
  commands: ['python3'],
  locations: ['/usr/bin/python3', '/usr/local/bin/python3', '/opt/homebrew/bin/python3'],
  packages: {
    'apt-get': 'python3',
    dnf: 'python3',
    pacman: 'python',
    zypper: 'python3',
    apk: 'python3',
    brew: 'python',
  },
};

export const PROGRAMS = [REDIS, CHROMIUM, PYTHON];

/** Returns the path of a program. A variable that names no program is an error, because another one would be a surprise. */
export function findProgram(
  { name, variable, commands, locations }: Program,
  environment: NodeJS.ProcessEnv = process.env,
): string | undefined {
  const named = environment[variable];
  if (named) {
    const path = isAbsolute(named) ? named : onPath(named, environment);
    if (path && isExecutable(path)) return path;
    throw new Error(
      `${variable} is ${named}, which is not a program. Set it to ${name}, or unset it.`,
    );
  }
  const found = commands.map((command) => onPath(command, environment)).find(Boolean);
  return found ?? locations.find(isExecutable);
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
  const packages = missing.map((program) => program.packages['apt-get']);
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

/** Names the missing programs, the command for this system, and the variables for programs that are installed elsewhere. */
export function howToInstall(
  missing: readonly Program[],
  environment: NodeJS.ProcessEnv = process.env,
): string {
  const names = missing.map(({ name }) => name).join(' and ');
  const manager = (Object.keys(INSTALL) as PackageManager[]).find((command) =>
    onPath(command, environment),
  );
  const command = manager
    ? [INSTALL[manager], ...missing.map(({ packages }) => packages[manager])].join(' ')
    : undefined;
  const variables = missing.map(({ variable }) => variable).join(' and ');
  return [
    `The tests need ${names}.`,
    ...(command ? ['Run this and try again:', `  ${command}`] : ['Install it and try again.']),
    `If it is installed already, set ${variables} to its path.`,
  ].join('\n');
}

function onPath(command: string, { PATH = '' } = process.env as NodeJS.ProcessEnv) {
  return PATH.split(delimiter)
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
