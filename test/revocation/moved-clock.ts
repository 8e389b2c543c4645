// All paths tried at chosen moments after a revocation, by a clock that stands still at each of them.
import {
  type AccessPaths,
  type Outcome,
  type AccessPath,
  ACCESS_PATHS,
} from '../support/access-paths.ts';
import { freezeClockAt } from '../support/clock.ts';

/** `at`: seconds since the revocation. */
export type Tried = Outcome & { path: AccessPath; at: number };

/** All paths side by side. */
export async function tryAll(every: AccessPaths, at: number): Promise<Tried[]> {
  return Promise.all(ACCESS_PATHS.map(async (path) => ({ path, at, ...(await every[path]()) })));
}

/** At each of the moments after `start`, seconds since the epoch. */
export async function tryAt(
  every: AccessPaths,
  start: number,
  moments: readonly number[],
): Promise<Tried[]> {
  const tried: Tried[] = [];
  for (const at of moments) {
    freezeClockAt(start + at);
    tried.push(...(await tryAll(every, at)));
  }
  return tried;
}

/** Seconds from the revocation to the last success of each path; undefined for a path without one. */
export function lastSuccesses(tried: readonly Tried[]): Partial<Record<AccessPath, number>> {
  const successes = tried.filter(({ isSuccess }) => isSuccess);
  return Object.fromEntries(successes.map(({ path, at }) => [path, at]));
}
