// Runs the MCP conformance suite in a worker thread; a person signs in when it prints an authorization URL.
import { realpathSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
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
  /** Resolves to all checks of the MCP server at `url`, which requires no token. Rejects if there are none. */
  runServer: (url: string, more: readonly string[]) => Promise<Check[]>;
  /** Resolves to all checks of the client that `command` starts. */
  runClient: (command: string, scenario: string) => Promise<Check[]>;
};

type Run = {
  onText: (text: string) => void;
  resolve: (code: number) => void;
  reject: (error: unknown) => void;
};

/** One for all tests of the surrounding `describe`, loaded by the first run. Its runs must not overlap. */
export function useConformanceSuite(): Suite {
  let worker: Worker | undefined;
  let current: Run | undefined;
  after(() => worker?.terminate());

  const start = (): Worker => {
    const thread = new Worker(WORKER, { workerData: SUITE });
    // A thread can also end between runs. The next run starts another.
    const onEnd = (error: unknown) => {
      if (worker !== thread) return;
      worker = undefined;
      current?.reject(error);
    };
    return thread
      .on('message', (report: Report) =>
        'code' in report ? current?.resolve(report.code) : current?.onText(report.text),
      )
      .on('error', onEnd)
      .on('exit', () => onEnd(new Error('the thread of the suite ended')));
  };

  /** Resolves to the exit code. */
  const run = (args: string[], onText: (text: string) => void): Promise<number> => {
    const { promise, ...settle } = Promise.withResolvers<number>();
    current = { onText, ...settle };
    worker ??= start();
    worker.postMessage(args, []);
    return promise;
  };

  const runForChecks = (args: string[]): Promise<Check[]> =>
    inFolder(async (folder) => {
      await run([...args, '-o', folder], () => {});
      const files = await readdir(folder, { recursive: true });
      const names = files.filter((name) => basename(name) === 'checks.json').map(dirname);
      const found = (await Promise.all(names.map((name) => readChecks(folder, name)))).flat();
      if (found.length === 0) throw new Error('the suite wrote no checks');
      return found;
    });

  return {
    async runAuthorization(system, link, more) {
      const [port = 0] = await freePorts(1);
      const { server } = await discover(link);
      const { id } = await registerClient(server, 'none', `http://127.0.0.1:${port}/callback`);
      return inFolder(async (folder) => {
        const file = join(folder, 'settings.json');
        await writeFile(file, JSON.stringify({ url: system.auth, clientId: id, port }));
        let output = '';
        const signIns: Promise<void>[] = [];
        const code = await run(['authorization', '--file', file, '-o', folder, ...more], (text) => {
          output += text;
          const urls = text
            .split('\n')
            .filter((line) => line.startsWith(server.authorization_endpoint));
          signIns.push(...urls.map((url) => signIn(system, url)));
        });
        await Promise.all(signIns);
        return { code, output };
      });
    },
    runServer: (url, more) => runForChecks(['server', '--url', url, ...more]),
    runClient: (command, scenario) =>
      runForChecks(['client', '--command', command, '--scenario', scenario]),
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
