// A disk that can be filled: a small tmpfs if mounting is allowed, else a limit on the file size of a process.
import { spawnSync } from 'node:child_process';
import { closeSync, openSync, readdirSync, rmSync, statSync, writeSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export type SmallDisk = {
  dir: string;
  /** Leaves the process `pid` no room to write. */
  fill(pid: number): void;
  free(pid: number): void;
  close(): Promise<void>;
};

const SIZE = '64m';
const CHUNKS = [1024 * 1024, 4096];

export async function openSmallDisk(): Promise<SmallDisk> {
  const dir = await mkdtemp(join(tmpdir(), 'small-disk-'));
  const isMounted = succeeds('mount', '-t', 'tmpfs', '-o', `size=${SIZE}`, 'tmpfs', dir);
  return isMounted ? mountedDisk(dir) : limitedFiles(dir);
}

function mountedDisk(dir: string): SmallDisk {
  const filler = join(dir, 'filler');
  return {
    dir,
    fill: () => fillUp(filler),
    free: () => rmSync(filler),
    async close() {
      require('umount', dir);
      await rm(dir, { recursive: true });
    },
  };
}

function fillUp(file: string): void {
  const descriptor = openSync(file, 'a');
  try {
    for (const size of CHUNKS) writeUntilFull(descriptor, Buffer.alloc(size));
  } finally {
    closeSync(descriptor);
  }
}

function writeUntilFull(descriptor: number, chunk: Buffer): void {
  try {
    for (;;) writeSync(descriptor, chunk);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
  }
}

/** Node ignores SIGXFSZ, so a write beyond the limit fails with an error. */
function limitedFiles(dir: string): SmallDisk {
  const limit = (pid: number, bytes: number | 'unlimited') =>
    require('prlimit', `--pid=${pid}`, `--fsize=${bytes}:unlimited`);
  return {
    dir,
    fill(pid) {
      const sizes = readdirSync(dir).map((name) => statSync(join(dir, name)).size);
      limit(pid, Math.max(...sizes));
    },
    free: (pid) => limit(pid, 'unlimited'),
    close: () => rm(dir, { recursive: true }),
  };
}

function require(command: string, ...args: string[]): void {
  if (!succeeds(command, ...args)) throw new Error(`${command} ${args.join(' ')} failed`);
}

function succeeds(command: string, ...args: string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}
