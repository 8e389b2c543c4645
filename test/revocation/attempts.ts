// Requests on every path at chosen times after a revocation, with a stopped clock.
import {
  type AccessPaths,
  type Outcome,
  type AccessPath,
  ACCESS_PATHS,
} from '../support/access-paths.ts';
import { freezeClockAt } from '../support/clock.ts';

/** `at`: seconds since the revocation. */
export type Attempt = Outcome & { path: AccessPath; at: number };

/** Tries all paths concurrently. */
export async function tryAll(every: AccessPaths, at: number): Promise<Attempt[]> {
  return Promise.all(ACCESS_PATHS.map(async (path) => ({ path, at, ...(await every[path]()) })));
}

/** Tries all paths at each of `moments`, in seconds after `start` (seconds since the epoch). */
export async function tryAt(
  every: AccessPaths,
  start: number,
  moments: readonly number[],
): Promise<Attempt[]> {
  const attempts: Attempt[] = [];
  for (const at of moments) {
    freezeClockAt(start + at);
    attempts.push(...(await tryAll(every, at)));
  }
  return attempts;
}

/** Seconds from the revocation to the last success of each path; undefined for a path without one. */
export function lastSuccesses(attempts: readonly Attempt[]): Partial<Record<AccessPath, number>> {
  const successes = attempts.filter(({ isSuccess }) => isSuccess);
  return Object.fromEntries(successes.map(({ path, at }) => [path, at]));
}
