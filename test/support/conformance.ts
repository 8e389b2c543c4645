// Runs the MCP conformance suite as a child process; a person signs in when it prints an authorization URL.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { openBrowser } from './browser.ts';
import { registerClient } from './connection.ts';
import { freePorts } from './free-ports.ts';
import { discover } from './oauth.ts';
import type { System } from './system.ts';

const ROOT = join(import.meta.dirname, '../..');
const SUITE = 'node_modules/.bin/conformance';

const checks = z.array(
  z.looseObject({ id: z.string(), status: z.string(), errorMessage: z.string().optional() }),
);

export type Check = { scenario: string; id: string; status: string; errorMessage: string };

/** Resolves to the output about the authorization server, and the exit code. */
export async function runAuthorizationSuite(
  system: System,
  link: string,
  more: readonly string[],
): Promise<{ code: number; output: string }> {
  const [port = 0] = await freePorts(1);
  const { server } = await discover(link);
  const { id } = await registerClient(server, 'none', `http://127.0.0.1:${port}/callback`);
  return inFolder(async (folder) => {
    const file = join(folder, 'settings.json');
    await writeFile(file, JSON.stringify({ url: system.auth, clientId: id, port }));
    const suite = spawn(
      process.execPath,
      [SUITE, 'authorization', '--file', file, '-o', folder, ...more],
      { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    const exited = once(suite, 'exit');
    let output = '';
    suite.stderr.on('data', (text) => (output += text));
    for await (const line of createInterface(suite.stdout)) {
      output += `${line}\n`;
      if (line.startsWith(server.authorization_endpoint)) await signIn(system, line);
    }
    const [code] = await exited;
    return { code, output };
  });
}

async function signIn(system: System, url: string): Promise<void> {
  const callback = await openBrowser(system.origins).authorize(url);
  await (await fetch(callback)).text();
}

/** Resolves to all checks of the MCP server at `url`, which requires no token. */
export function runServerSuite(url: string, more: readonly string[]): Promise<Check[]> {
  return inFolder(async (folder) => {
    const suite = spawn(process.execPath, [SUITE, 'server', '--url', url, '-o', folder, ...more], {
      cwd: ROOT,
      stdio: 'ignore',
    });
    await once(suite, 'exit');
    const found = await Promise.all(
      (await readdir(folder)).map((name) => readChecks(folder, name)),
    );
    return found.flat();
  });
}

async function readChecks(folder: string, name: string): Promise<Check[]> {
  const [, scenario = name] = /^server-(.+)-\d{4}-\d\d-\d\dT/.exec(name) ?? [];
  const found = checks.parse(JSON.parse(await readFile(join(folder, name, 'checks.json'), 'utf8')));
  return found.map(({ id, status, errorMessage = '' }) => ({ scenario, id, status, errorMessage }));
}

async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'conformance-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
