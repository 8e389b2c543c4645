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
  tool: string;
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
export type Said = { progress: Progress } | { report: Report };

export type ConstantLoad = {
  /** Resolves when as many flows as this are through since now, and nothing is left behind. */
  goesOn(flows: number): Promise<void>;
  /** No more arrivals; resolves when everybody went on once more. */
  stop(): Promise<Report>;
  /** Ends the process. */
  close(): Promise<void>;
};

const BETWEEN_LOOKS_MS = 50;
const GOES_ON_SECONDS = 120;
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
  const child = fork(join(import.meta.dirname, 'people-at-work.ts'), [JSON.stringify(told)]);
  const killAtExit = () => child.kill('SIGKILL');
  process.once('exit', killAtExit);
  let progress: Progress | undefined;
  let report: Report | undefined;
  child.on('message', (said: Said) => {
    if ('progress' in said) ({ progress } = said);
    else ({ report } = said);
  });
  const looking = setInterval(() => child.connected && child.send(takers()), BETWEEN_LOOKS_MS);
  child.once('exit', () => {
    clearInterval(looking);
    process.off('exit', killAtExit);
  });
  const said = async <Value>(value: () => Value | undefined | false, seconds: number) => {
    const look = () => {
      const found = value();
      if (!found && child.exitCode !== null) throw new Error('the load ended by itself');
      return found;
    };
    return until('the load goes on', look, seconds).catch((cause: Error) => {
      throw new Error(`${cause.message}, at ${JSON.stringify(progress)}`, { cause });
    });
  };
  const latest = () => said(() => progress, GOES_ON_SECONDS);
  const close = async () => {
    if (child.exitCode === null && child.kill('SIGKILL')) await once(child, 'exit');
  };
  try {
    await latest();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    async goesOn(flows) {
      const wanted = (await latest()).done.flows + flows;
      const wentOn = () => progress && progress.done.flows >= wanted && progress.behind === 0;
      await said(wentOn, GOES_ON_SECONDS);
    },
    async stop() {
      child.send('stop');
      return said(() => report, ENDING_SECONDS);
    },
    close,
  };
}
