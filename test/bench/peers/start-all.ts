// Starts the implementations: several cold starts each, then one that stays, with its memory before the first request.
import type { Place } from '../subjects.ts';
import { residentMemory } from '../server-process.ts';
import type { Implementation } from './implementation.ts';
import { installPeers } from './install.ts';
import type { Options } from './options.ts';
import { openSession, type Session } from './session.ts';

/** `startedWith` in bytes. */
export type StartedImplementation = { session: Session; starts: number[]; startedWith: number };

/** `notStarted` has the reason by name. */
export type StartResult = { started: StartedImplementation[]; notStarted: Map<string, string> };

export async function startAll(
  { implementations, starts }: Options,
  place: Place,
  report: (line: string) => void,
): Promise<StartResult> {
  report('installing the peers');
  const needsPeers = implementations.some(({ isInstalled }) => isInstalled);
  const refusal = needsPeers ? await installPeers() : undefined;
  const result: StartResult = { started: [], notStarted: new Map() };
  for (const implementation of implementations) {
    report(`starting ${implementation.name}`);
    try {
      if (implementation.isInstalled && refusal !== undefined) throw new Error(refusal);
      result.started.push(await startOne(implementation, place, starts));
    } catch (error) {
      result.notStarted.set(
        implementation.name,
        error instanceof Error ? error.message : String(error),
      );
    }
  }
  return result;
}

async function startOne(
  implementation: Implementation,
  place: Place,
  count: number,
): Promise<StartedImplementation> {
  const starts: number[] = [];
  for (let start = 1; ; start += 1) {
    const running = await implementation.start(place);
    starts.push(running.startedIn);
    if (start < count) {
      await running.stop();
      continue;
    }
    const startedWith = await residentMemory(running.server);
    return { session: await openSession(implementation, running), starts, startedWith };
  }
}
