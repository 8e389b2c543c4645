// Runs the server as a child process.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { nodeArguments } from './node-arguments.ts';

export type ExitResult = { code: number | null; stdout: string; stderr: string };

/** Runs the server until it ends, or until it has printed `last` and was stopped. */
export function runServer(
  environment: Record<string, string>,
  last = /$^/,
  options: readonly string[] = [],
): Promise<ExitResult> {
  return runServerWhile(environment, last, async () => {}, options);
}

/** Runs the server, calls `use` once it has printed `ready`, and stops it. Rejects if `use` rejects. */
export async function runServerWhile(
  environment: Record<string, string>,
  ready: RegExp,
  use: () => Promise<void>,
  options: readonly string[] = [],
): Promise<ExitResult> {
  const child = spawn(process.execPath, nodeArguments(['start', ...options]), { env: environment });
  let [stdout, stderr] = ['', ''];
  let used: Promise<void> | undefined;
  child.stdout.on('data', (text) => {
    stdout += text;
    if (ready.test(stdout)) used ??= use().finally(() => child.kill('SIGTERM'));
  });
  child.stderr.on('data', (text) => (stderr += text));
  const [code] = await once(child, 'close');
  await used;
  return { code, stdout, stderr };
}
