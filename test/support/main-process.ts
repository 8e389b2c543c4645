// The server as a process that ends: by itself, or when it has said what was waited for.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { argumentsFor } from './program.ts';

export type Ended = { code: number | null; stdout: string; stderr: string };

/** Runs the server until it ends by itself, or has printed `last` and was told to stop. */
export async function runServer(environment: Record<string, string>, last = /$^/): Promise<Ended> {
  const child = spawn(process.execPath, argumentsFor('main.ts'), { env: environment });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (text) => {
    stdout += text;
    if (last.test(stdout)) child.kill('SIGTERM');
  });
  child.stderr.on('data', (text) => (stderr += text));
  const [code] = await once(child, 'close');
  return { code, stdout, stderr };
}
