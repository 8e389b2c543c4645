// Contestants that started: each cold a number of times, then once to stay, with its memory before anybody asked it anything.
import type { Place } from '../subjects.ts';
import { type Contestant, memoryOf } from './contestant.ts';
import { installPeers } from './install.ts';
import type { Options } from './options.ts';
import { openSession, type Session } from './session.ts';

/** `startedWith` in bytes. */
export type Entrant = { session: Session; starts: number[]; startedWith: number };

/** `leftOut` says, by name, why somebody is not among the entrants. */
export type Entered = { entrants: Entrant[]; leftOut: Map<string, string> };

export async function enterAll(
  { contestants, starts }: Options,
  place: Place,
  report: (line: string) => void,
): Promise<Entered> {
  report('installing the peers');
  const needsPeers = contestants.some(({ isInstalled }) => isInstalled);
  const refusal = needsPeers ? await installPeers() : undefined;
  const entered: Entered = { entrants: [], leftOut: new Map() };
  for (const contestant of contestants) {
    report(`starting ${contestant.name}`);
    try {
      if (contestant.isInstalled && refusal !== undefined) throw new Error(refusal);
      entered.entrants.push(await enter(contestant, place, starts));
    } catch (error) {
      entered.leftOut.set(contestant.name, error instanceof Error ? error.message : String(error));
    }
  }
  return entered;
}

async function enter(contestant: Contestant, place: Place, count: number): Promise<Entrant> {
  const starts: number[] = [];
  for (let start = 1; ; start += 1) {
    const running = await contestant.start(place);
    starts.push(running.startedIn);
    if (start < count) {
      await running.stop();
      continue;
    }
    const startedWith = await memoryOf(running.server);
    return { session: await openSession(contestant, running), starts, startedWith };
  }
}
