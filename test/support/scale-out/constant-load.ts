// People at work all the time, in a process of their own: some connect anew, some refresh and call, some wait for news over a stream that stays open.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { until } from '../../store/condition.ts';
import type { Takers } from './direct-fetch.ts';
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
  deadline: number;
};

/** What was done and answered with 200, streams that were opened, and answers that said to come back later. */
export type Done = {
  flows: number;
  refreshes: number;
  calls: number;
  streams: number;
  putOff: number;
};

export type Progress = {
  /** What had to begin until now, and how much of it did not. */
  asked: { flows: number; calls: number };
  behind: number;
  done: Done;
  /** How many are connected. */
  people: number;
};

export type Report = Progress & {
  /** When everybody who ever connected went on once more. */
  atTheEnd: Done;
  /** What went wrong, in words: the first of it. */
  wrong: string[];
};

/** What the process of the load is told at its start, and what it says. */
export type Told = LoadOptions & { link: string; origins: string[]; takers: Takers };
export type Said = { progress?: Progress; report?: Report };

export type ConstantLoad = {
  /** Resolves when as many flows as this are through since now, and nothing is left behind, or a computer is too slow for that. */
  goesOn(flows: number): Promise<void>;
  /** No more arrivals; resolves when everybody went on once more. */
  stop(): Promise<Report>;
  /** Ends the process. */
  close(): Promise<void>;
};

/** What an answer leaves behind is gone soon, and seldom looked for. */
const LEAN = ['--max-semi-space-size=64'];
const BETWEEN_LOOKS_MS = 50;
const GOES_ON_SECONDS = 120;
const CATCHES_UP_MS = 60_000;
const ENDING_SECONDS = 300;

/** Resolves when everybody who calls or listens is connected. */
export async function startConstantLoad(
  system: Processes,
  { link }: { link: string },
  options: LoadOptions,
): Promise<ConstantLoad> {
  const takers = (): Takers => ({
    [new URL(system.auth).port]: system.takers('AUTH'),
    [new URL(system.resource).port]: system.takers('RESOURCE'),
  });
  const told: Told = { ...options, link, origins: system.origins, takers: takers() };
  const load = startProcess(told);
  const looking = setInterval(() => load.tell(takers()), BETWEEN_LOOKS_MS);
  const close = async () => {
    clearInterval(looking);
    await load.close();
  };
  try {
    await load.until(({ progress }) => progress, GOES_ON_SECONDS);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    async goesOn(flows) {
      const { done } = await load.until(({ progress }) => progress, GOES_ON_SECONDS);
      const late = performance.now() + CATCHES_UP_MS;
      const wentOn = (now: Progress) =>
        now.done.flows >= done.flows + flows && (now.behind === 0 || performance.now() > late);
      await load.until(({ progress }) => progress && wentOn(progress), GOES_ON_SECONDS);
    },
    async stop() {
      load.tell('stop');
      return load.until(({ report }) => report, ENDING_SECONDS);
    },
    close,
  };
}

function startProcess(told: Told) {
  const file = join(import.meta.dirname, 'constant-load-process.ts');
  const child = fork(file, [JSON.stringify(told)], { execArgv: LEAN });
  const exited = once(child, 'exit');
  const killAtExit = () => child.kill('SIGKILL');
  process.once('exit', killAtExit);
  const heard: Said = {};
  child.on('message', (said: Said) => Object.assign(heard, said));
  return {
    tell: (message: Takers | 'stop') => child.connected && child.send(message),
    /** What `find` finds in the latest that the process said. Throws how far it came when that takes too long. */
    async until<Value>(find: (heard: Said) => Value | undefined | false, seconds: number) {
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
