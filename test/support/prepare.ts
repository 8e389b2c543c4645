// Run before the tests: installs the programs they start and npm cannot bring, or stops with the command that does.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

type Program = { name: string; debianPackage: string; isHere: () => boolean };

const PROGRAMS: Program[] = [
  {
    name: 'redis-server on the PATH',
    debianPackage: 'redis-server',
    isHere: () => spawnSync('redis-server', ['--version']).status === 0,
  },
  {
    name: 'Chromium at /usr/bin/chromium',
    debianPackage: 'chromium',
    isHere: () => existsSync('/usr/bin/chromium'),
  },
];

const missing = () => PROGRAMS.filter(({ isHere }) => !isHere());

const wanted = missing();
if (wanted.length > 0) {
  const packages = wanted.map(({ debianPackage }) => debianPackage);
  if (process.getuid?.() !== 0 || !hasApt()) refuse(wanted, commandFor(packages));
  run('apt-get', ['update']);
  run('apt-get', ['install', '--yes', '--no-install-recommends', ...packages]);
  const still = missing();
  if (still.length > 0) refuse(still, commandFor(packages));
}

function hasApt(): boolean {
  return spawnSync('apt-get', ['--version']).status === 0;
}

function commandFor(packages: string[]): string {
  return `sudo apt-get update && sudo apt-get install --yes ${packages.join(' ')}`;
}

function run(command: string, args: string[]): void {
  const { status, error } = spawnSync(command, args, {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  });
  if (status === 0) return;
  console.error(`${command} ${args.join(' ')} failed${error ? `: ${error.message}` : ''}`);
  process.exit(1);
}

function refuse(programs: Program[], command: string): never {
  const names = programs.map(({ name }) => name).join(' and ');
  console.error(`The tests need ${names}. Run this and try again:\n  ${command}`);
  process.exit(1);
}
