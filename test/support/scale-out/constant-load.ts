// People at work all the time, in a process of their own: some connect anew, some refresh and call, some wait for news over a stream that stays open.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { until } from '../../store/condition.ts';
import type { ReadyPorts } from './direct-fetch.ts';
import type { Processes } from './processes.ts';

export type LoadOptions = {
  /** Flows from the link to a first call, and calls of those who are connected. */
  flowsPerSecond: number;
  callsPerSecond: number;
  /** How many call in turn, and how often each of them refreshes. */
  callers: number;
  callsPerRefresh: number;
  listeners: number;
  tool: { name: string; given: Record<string, unknown> };
  /** Milliseconds within which everything is answered. */
  maxMs: number;
};

/** What was done and answered with 200, streams that were opened, and answers that said to come back later. */
export type LoadCounts = {
  flows: number;
  refreshes: number;
  calls: number;
  streams: number;
  retries: number;
};

export type Progress = {
  /** What had to begin until now, and how much of it did not. */
  due: { flows: number; calls: number };
  behind: number;
  done: LoadCounts;
  /** How many are connected. */
  people: number;
};

export type Report = Progress & {
  /** When everybody who ever connected went on once more. */
  afterStop: LoadCounts;
  /** What went wrong, in words: the first of it. */
  errors: string[];
};

/** What the process of the load is told at its start, and what it says. */
export type LoadInput = LoadOptions & { link: string; origins: string[]; readyPorts: ReadyPorts };
export type LoadMessage = { progress?: Progress; report?: Report };

export type ConstantLoad = {
  /** Resolves when as many flows as this are through since now, and nothing is left behind, or a computer is too slow for that. */
  waitForFlows(flows: number): Promise<void>;
  /** No more arrivals; resolves when everybody went on once more. */
  stop(): Promise<Report>;
  /** Ends the process. */
  close(): Promise<void>;
};

/** What an answer leaves behind is gone soon, and seldom looked for. */
const NODE_OPTIONS = ['--max-semi-space-size=64'];
const PORTS_INTERVAL_MS = 50;
const PROGRESS_TIMEOUT_SECONDS = 120;
const MAX_BEHIND_MS = 60_000;
const STOP_TIMEOUT_SECONDS = 300;

/** Resolves when everybody who calls or listens is connected. */
export async function startConstantLoad(
  system: Processes,
  { link }: { link: string },
  options: LoadOptions,
): Promise<ConstantLoad> {
  const readyPorts = (): ReadyPorts => ({
    [new URL(system.auth).port]: system.readyPorts('AUTH'),
    [new URL(system.resource).port]: system.readyPorts('RESOURCE'),
  });
  const told: LoadInput = { ...options, link, origins: system.origins, readyPorts: readyPorts() };
  const load = startProcess(told);
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

function startProcess(told: LoadInput) {
  const file = join(import.meta.dirname, 'constant-load-process.ts');
  const child = fork(file, [JSON.stringify(told)], { execArgv: NODE_OPTIONS });
  const exited = once(child, 'exit');
  const killAtExit = () => child.kill('SIGKILL');
  process.once('exit', killAtExit);
  const heard: LoadMessage = {};
  child.on('message', (said: LoadMessage) => Object.assign(heard, said));
  return {
    tell: (message: ReadyPorts | 'stop') => child.connected && child.send(message),
    /** What `find` finds in the latest that the process said. Throws how far it came when that takes too long. */
    async until<Value>(find: (heard: LoadMessage) => Value | undefined | false, seconds: number) {
      const look = () => {
        const found = find(heard);
        if (!found && !child.connected) throw new Error('it ended by itself');
        return found;
      };
      return until('the load goes on', look, seconds).catch((cause: Error) => {
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
