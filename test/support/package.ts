// The packed Gatehouse, installed as people install it but without a network.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, readFile, symlink } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import manifest from '../../package.json' with { type: 'json' };

const ROOT = join(import.meta.dirname, '../..');
/** What `npm pack` reads. */
const PACKED = [
  '.ci',
  '.npmrc',
  'CHANGELOG.md',
  'LICENSE',
  'README.md',
  'config',
  'package.json',
  'src',
  'views',
];

/** Runs `npm pack` in a copy of the checkout, so that runs at the same time do not meet. Returns the path of the tarball. */
export async function packCheckout(folder: string): Promise<string> {
  const copy = join(folder, 'checkout');
  for (const name of PACKED) await cp(join(ROOT, name), join(copy, name), { recursive: true });
  // Not in the copy, because npm would read the manifest of every package.
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const PATH = [join(ROOT, 'node_modules/.bin'), process.env.PATH].join(delimiter);
  await run('npm', ['pack', '--pack-destination', folder], copy, { ...process.env, PATH });
  return join(folder, `${manifest.name}-${manifest.version}.tgz`);
}

/** Installs the tarball in the folder, with links to the dependencies of the checkout. Returns the path of the command. */
export async function installPackage(tarball: string, folder: string): Promise<string> {
  const modules = join(folder, 'node_modules');
  const own = join(modules, manifest.name);
  const command = join(modules, '.bin', manifest.name);
  await mkdir(own, { recursive: true });
  await run('tar', ['-xzf', tarball, '--strip-components=1'], own);
  for (const name of Object.keys(manifest.dependencies)) {
    await mkdir(dirname(join(modules, name)), { recursive: true });
    await symlink(join(ROOT, 'node_modules', name), join(modules, name));
  }
  const installed = JSON.parse(await readFile(join(own, 'package.json'), 'utf8'));
  await mkdir(dirname(command));
  await symlink(join(own, installed.bin[manifest.name]), command);
  return command;
}

/** Returns the standard output. Rejects with the standard error if the program fails. */
export async function run(
  program: string,
  args: readonly string[],
  cwd: string,
  environment: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  const child = spawn(program, args, { cwd, env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
  const exited = once(child, 'close');
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await exited;
  if (child.exitCode === 0) return stdout;
  throw new Error(`${program} ${args.join(' ')} exited with ${child.exitCode}: ${stderr}${stdout}`);
}
