// Runs the command line as a child process, with nothing in its environment but what a test gives it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { KEY, type ManagementHost } from './management-host.ts';

const CLI = join(import.meta.dirname, '../../src/cli.ts');

export type Outcome = { code: number | null; stdout: string; stderr: string };

export async function gatehouse(
  args: string[],
  env: Record<string, string>,
  cwd?: string,
): Promise<Outcome> {
  const child = spawn(process.execPath, [CLI, ...args], { env, cwd, stdio: 'pipe' });
  child.stdin.end();
  const closed = once(child, 'close');
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await closed;
  return { code: child.exitCode, stdout, stderr };
}

/** The environment of an administrator of `host`. */
export function accessTo({ url }: Pick<ManagementHost, 'url'>, key = KEY): Record<string, string> {
  return { GATEHOUSE_MANAGEMENT_URL: url, GATEHOUSE_MANAGEMENT_KEY: key };
}
