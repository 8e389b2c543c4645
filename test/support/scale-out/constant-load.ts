// Constant load from a child process: some people connect, some refresh and call, some hold a stream open.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { until } from '../until.ts';
import type { ReadyPorts } from './direct-fetch.ts';
import type { Processes } from './processes.ts';

export type LoadOptions = {
  /** A flow goes from the connect link to a first call; calls are those of connected people. */
  flowsPerSecond: number;
  callsPerSecond: number;
  /** The number of people who call in turn, and the number of calls between refreshes. */
  callers: number;
  callsPerRefresh: number;
  listeners: number;
  tool: { name: string; given: Record<string, unknown> };
  /** The time limit of every request. */
  maxMs: number;
};

/** Successful operations, opened streams, and responses that asked to retry. */
export type LoadCounts = {
  flows: number;
  refreshes: number;
  calls: number;
  streams: number;
  retries: number;
};

export type Progress = {
  /** Arrivals due so far, and how many of them have not started. */
  due: { flows: number; calls: number };
  behind: number;
  done: LoadCounts;
  /** The number of connected people. */
  people: number;
};

export type Report = Progress & {
  /** Operations in the final round, in which every person refreshes and calls once. */
  afterStop: LoadCounts;
  /** Descriptions of the first errors. */
  errors: string[];
};

/** The input of the child process, and its messages. */
export type LoadInput = LoadOptions & { link: string; origins: string[]; readyPorts: ReadyPorts };
export type LoadMessage = { progress?: Progress; report?: Report };

export type ConstantLoad = {
  /** Resolves when this many more flows have completed and no arrival is behind, or after a limit for slow machines. */
  waitForFlows(flows: number): Promise<void>;
  /** Stops arrivals; resolves after the final round. */
  stop(): Promise<Report>;
  /** Ends the child process. */
  close(): Promise<void>;
};

/** Most garbage of a request is short-lived, so a large young generation saves collections. */
const NODE_OPTIONS = ['--max-semi-space-size=64'];
const PORTS_INTERVAL_MS = 50;
const PROGRESS_TIMEOUT_SECONDS = 120;
const MAX_BEHIND_MS = 60_000;
const STOP_TIMEOUT_SECONDS = 300;

/** Resolves when everyone who calls or listens is connected. */
export async function startConstantLoad(
  system: Processes,
  { link }: { link: string },
  options: LoadOptions,
): Promise<ConstantLoad> {
  const readyPorts = (): ReadyPorts => ({
    [new URL(system.auth).port]: system.readyPorts('AUTH'),
    [new URL(system.resource).port]: system.readyPorts('RESOURCE'),
  });
  const input: LoadInput = { ...options, link, origins: system.origins, readyPorts: readyPorts() };
  const load = startProcess(input);
  const looking = setInterval(() => load.tell(readyPorts()), PORTS_INTERVAL_MS);
  const close = async () => {
    clearInterval(looking);
    await load.close();
  };
  try {
    await load.until(({ progress }) => progress, PROGRESS_TIMEOUT_SECONDS);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    async waitForFlows(flows) {
      const { done } = await load.until(({ progress }) => progress, PROGRESS_TIMEOUT_SECONDS);
      const late = performance.now() + MAX_BEHIND_MS;
      const wentOn = (now: Progress) =>
        now.done.flows >= done.flows + flows && (now.behind === 0 || performance.now() > late);
      await load.until(({ progress }) => progress && wentOn(progress), PROGRESS_TIMEOUT_SECONDS);
    },
    async stop() {
      load.tell('stop');
      return load.until(({ report }) => report, STOP_TIMEOUT_SECONDS);
    },
    close,
  };
}

function startProcess(input: LoadInput) {
  const file = join(import.meta.dirname, 'constant-load-process.ts');
  const child = fork(file, [JSON.stringify(input)], { execArgv: NODE_OPTIONS });
  const exited = once(child, 'exit');
  const killAtExit = () => child.kill('SIGKILL');
  process.once('exit', killAtExit);
  const heard: LoadMessage = {};
  child.on('message', (said: LoadMessage) => Object.assign(heard, said));
  return {
    tell: (message: ReadyPorts | 'stop') => child.connected && child.send(message),
    /** Waits until `find` returns a value for the latest message. Rejects with the progress on timeout. */
    async until<Value>(find: (heard: LoadMessage) => Value | undefined | false, seconds: number) {
      const look = () => {
        const found = find(heard);
        if (!found && !child.connected) throw new Error('it ended by itself');
        return found;
      };
      return until('progress of the load', look, seconds).catch((cause: Error) => {
        throw new Error(`${cause.message}, at ${JSON.stringify(heard.progress)}`, { cause });
      });
    },
    async close() {
      child.kill('SIGKILL');
      await exited;
      process.off('exit', killAtExit);
    },
  };
}
