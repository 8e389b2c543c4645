// Checks arguments in a thread of its own, one task after the other, so that no schema and no arguments block the process.
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { lruCache } from '../../lru-cache.ts';
import { PACKAGE_FOLDER } from '../../package-folder.ts';

/** `json` is the schema, or the arguments. */
export type Task = { kind: 'compile' | 'check'; digest: string; json: string };
/** `isMissing`: the thread does not have the schema. */
export type Reply = { unusable?: string; violation?: string; isMissing?: true };

/** `unusable`: why the schema is not enforced. `slow`: the check took too long. */
export type Outcome = Reply & { slow?: true };

export type ArgumentChecker = {
  /** `schema` is called if the schema is not compiled yet. */
  check(digest: string, schema: () => Promise<unknown>, given: unknown): Promise<Outcome>;
  close(): Promise<void>;
};

const COMPILE_MS = 1000;
const CHECK_MS = 100;
/** A busy machine gives the thread no time, for which nobody is to blame. */
const MAX_WAIT_FACTOR = 20;
/** The thread forgets all of them. */
const MAX_SCHEMAS = 1000;
const MAX_ATTEMPTS = 3;
const LIMITS = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 };

type Waiting = { task: Task; done: (outcome: Outcome) => void };

/** Only tests set `compileMs`. */
export function openArgumentChecker({ compileMs = COMPILE_MS } = {}): ArgumentChecker {
  let worker: Worker | undefined;
  let ready = Promise.resolve();
  let compiled = new Set<string>();
  /** They cannot be compiled, or not in time. */
  const unusable = lruCache<string>(MAX_SCHEMAS);
  const queue: Waiting[] = [];
  let current: Waiting | undefined;
  let timer: NodeJS.Timeout | undefined;

  function start(): Worker {
    const isSource = import.meta.filename.endsWith('.ts');
    const path = isSource ? 'src/argument-worker.ts' : 'dist/argument-worker.js';
    const started = new Worker(join(PACKAGE_FOLDER, path), { resourceLimits: LIMITS, env: {} });
    started.unref();
    ready = new Promise((resolve) => started.once('message', () => resolve()));
    started.on('message', (reply: Reply | 'ready') => {
      if (started === worker && reply !== 'ready') finish(reply);
    });
    // Out of memory.
    started.on('error', () => started === worker && giveUp());
    return started;
  }

  function finish(outcome: Outcome): void {
    clearTimeout(timer);
    const ended = current;
    current = undefined;
    ended?.done(outcome);
    next();
  }

  /** The thread is lost, with what it compiled. */
  function giveUp(): void {
    void worker?.terminate();
    worker = undefined;
    compiled = new Set();
    finish(
      current?.task.kind === 'compile'
        ? { unusable: 'compiling it takes too long' }
        : { slow: true },
    );
  }

  function next(): void {
    if (current) return;
    const waiting = queue.shift();
    if (!waiting) return;
    current = waiting;
    const { task } = waiting;
    if (compiled.size > MAX_SCHEMAS) {
      void worker?.terminate();
      worker = undefined;
      compiled = new Set([task.digest]);
    }
    worker ??= start();
    void send(waiting, worker);
  }

  async function send(waiting: Waiting, to: Worker): Promise<void> {
    // A start takes longer than a check may.
    await ready;
    if (current !== waiting || to !== worker) return;
    const { task } = waiting;
    to.postMessage(task, []);
    const limit = task.kind === 'compile' ? compileMs : CHECK_MS;
    const before = await usedBy(to);
    const watch = (waited: number) => {
      timer = setTimeout(async () => {
        const spent = (await usedBy(to)) - before;
        if (current !== waiting) return;
        if (spent >= limit || waited >= limit * MAX_WAIT_FACTOR) giveUp();
        else watch(waited + limit);
      }, limit);
    };
    if (current === waiting) watch(limit);
  }

  const run = (task: Task) =>
    new Promise<Outcome>((done) => {
      queue.push({ task, done });
      next();
    });

  /** Returns why the schema is not enforced. */
  async function compile(digest: string, schema: unknown): Promise<string | undefined> {
    compiled.add(digest);
    const task = { kind: 'compile', digest, json: JSON.stringify(schema) ?? 'null' } as const;
    const { unusable: reason } = await run(task);
    if (reason !== undefined) {
      compiled.delete(digest);
      unusable.set(digest, reason);
    }
    return reason;
  }

  return {
    async check(digest, schema, given) {
      const json = JSON.stringify(given ?? {});
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
        const known = unusable.get(digest);
        if (known !== undefined) return { unusable: known };
        if (!compiled.has(digest)) {
          const reason = await compile(digest, await schema());
          if (reason !== undefined) return { unusable: reason };
        }
        const outcome = await run({ kind: 'check', digest, json });
        if (!outcome.isMissing) return outcome;
        // Another task ended the thread meanwhile.
        compiled.delete(digest);
      }
      return { slow: true };
    },
    async close() {
      clearTimeout(timer);
      await worker?.terminate();
      worker = undefined;
    },
  };
}

/** Milliseconds of processor time. Earlier versions of Node do not tell: then it is the time that passed. */
async function usedBy(
  worker: (Worker & { cpuUsage?: Worker['cpuUsage'] }) | undefined,
): Promise<number> {
  if (!worker?.cpuUsage) return performance.now();
  const { user, system } = await worker.cpuUsage().catch(() => ({ user: 0, system: 0 }));
  return (user + system) / 1000;
}
