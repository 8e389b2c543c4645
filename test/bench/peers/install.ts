// Puts the peers into installed/node_modules as their lock file says, unless they are there already.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const DIRECTORY = join(import.meta.dirname, 'installed');
/** Of the lock file that was installed last. */
const STAMP = join(DIRECTORY, 'node_modules', '.lock-digest');
const INSTALL_TIMEOUT_MS = 240_000;

/** What went wrong, if anything: npm's own words. No script of a package is run. */
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

/** Name and version of what was asked for. */
export async function pinnedVersions(): Promise<string[]> {
  const { dependencies } = JSON.parse(await readFile(join(DIRECTORY, 'package.json'), 'utf8'));
  return Object.entries(dependencies).map(([name, version]) => `${name} ${String(version)}`);
}
