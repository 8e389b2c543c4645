// Runs the MCP conformance suite in a worker thread; a person signs in when it prints an authorization URL.
import { realpathSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';
import { openBrowser } from './browser.ts';
import { registerClient } from './connection.ts';
import type { Report } from './conformance-worker.ts';
import { freePorts } from './free-ports.ts';
import { discover } from './oauth.ts';
import type { System } from './system.ts';

const WORKER = join(import.meta.dirname, 'conformance-worker.ts');
const SUITE = realpathSync(join(import.meta.dirname, '../../node_modules/.bin/conformance'));

const checks = z.array(
  z.looseObject({ id: z.string(), status: z.string(), errorMessage: z.string().optional() }),
);

export type Check = { scenario: string; id: string; status: string; errorMessage: string };

export type Suite = {
  /** Resolves to the output about the authorization server, and the exit code. */
  runAuthorization: (
    system: System,
    link: string,
    more: readonly string[],
  ) => Promise<{ code: number; output: string }>;
  /** Resolves to all checks of the MCP server at `url`, which requires no token. */
  runServer: (url: string, more: readonly string[]) => Promise<Check[]>;
};

/** One for all tests of the surrounding `describe`, loaded by the first run. Its runs must not overlap. */
export function useConformanceSuite(): Suite {
  let worker: Worker | undefined;
  after(() => worker?.terminate());

  /** Resolves to the exit code. */
  const run = (args: string[], onText: (text: string) => void): Promise<number> => {
    const thread = (worker ??= new Worker(WORKER, { workerData: SUITE }));
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    // The thread has ended then, and the next run needs another.
    const onError = (error: unknown) => {
      worker = undefined;
      reject(error);
    };
    const onMessage = (report: Report) =>
      'code' in report ? resolve(report.code) : onText(report.text);
    thread.on('message', onMessage).on('error', onError);
    thread.postMessage(args, []);
    return promise.finally(() => thread.off('message', onMessage).off('error', onError));
  };

  return {
    async runAuthorization(system, link, more) {
      const [port = 0] = await freePorts(1);
      const { server } = await discover(link);
      const { id } = await registerClient(server, 'none', `http://127.0.0.1:${port}/callback`);
      return inFolder(async (folder) => {
        const file = join(folder, 'settings.json');
        await writeFile(file, JSON.stringify({ url: system.auth, clientId: id, port }));
        let output = '';
        let signedIn: Promise<void> | undefined;
        const code = await run(['authorization', '--file', file, '-o', folder, ...more], (text) => {
          output += text;
          const url = text
            .split('\n')
            .find((line) => line.startsWith(server.authorization_endpoint));
          if (url !== undefined) signedIn = signIn(system, url);
        });
        await signedIn;
        return { code, output };
      });
    },
    runServer(url, more) {
      return inFolder(async (folder) => {
        await run(['server', '--url', url, '-o', folder, ...more], () => {});
        const names = await readdir(folder);
        const found = await Promise.all(names.map((name) => readChecks(folder, name)));
        return found.flat();
      });
    },
  };
}

async function signIn(system: System, url: string): Promise<void> {
  const callback = await openBrowser(system.origins).authorize(url);
  await (await fetch(callback)).text();
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
