// Installs the peers into installed/node_modules from their lock file, unless they are up to date.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const DIRECTORY = join(import.meta.dirname, 'installed');
/** A copy of the lock file that was installed last. */
const STAMP = join(DIRECTORY, 'node_modules', '.lock-digest');
const INSTALL_TIMEOUT_MS = 240_000;

/** Runs npm without package scripts; returns its error output, if it fails. */
export async function installPeers(): Promise<string | undefined> {
  const lock = await readFile(join(DIRECTORY, 'package-lock.json'));
  const digest = createHash('sha256').update(lock).digest('hex');
  if ((await readFile(STAMP, 'utf8').catch(() => '')) === digest) return undefined;
  try {
    const options = { cwd: DIRECTORY, timeout: INSTALL_TIMEOUT_MS };
    await promisify(execFile)(
      'npm',
      ['ci', '--ignore-scripts', '--no-audit', '--no-fund'],
      options,
    );
    await writeFile(STAMP, digest);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message.trim() : String(error);
  }
}

/** The requested package with its version. */
export async function pinnedVersions(): Promise<string[]> {
  const { dependencies } = JSON.parse(await readFile(join(DIRECTORY, 'package.json'), 'utf8'));
  return Object.entries(dependencies).map(([name, version]) => `${name} ${String(version)}`);
}
