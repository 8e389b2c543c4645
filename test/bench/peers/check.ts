// The checks of the comparison: each yields rows of the table for every implementation.
import { PART_TIMEOUT_MS, withTimeout } from './time-limits.ts';
import type { Session } from './session.ts';

/** `passed` is undefined if the check does not apply. `note` explains the result. */
export type CheckResult = { passed?: boolean; note?: string };

export type Check = {
  /** The statements that the check tests, one a row. */
  rows: readonly string[];
  /** A result for each row, or a function to call after the grace period for repeated refreshes. */
  run(session: Session): Promise<CheckResult[] | Later>;
};

export type Later = () => Promise<CheckResult[]>;

/** Longer than the grace periods of Gatehouse (60 s) and Better Auth (30 s). */
export const GRACE_MS = 63_000;

export function passedIf(passed: boolean, note?: string): CheckResult {
  return { passed, ...(note === undefined ? {} : { note }) };
}

const RACES = 5;

/** Repetitions of a race, because its result varies. */
export async function repeatedly<Result>(race: () => Promise<Result>): Promise<Result[]> {
  const results: Result[] = [];
  while (results.length < RACES) results.push(await race());
  return results;
}

/** The results of one implementation by row; a check that throws fails its rows with the error. */
export type CheckResults = Map<string, CheckResult>;

/** Resolves to the results so far, and a function that adds the others after the grace period. */
export async function runChecks(
  session: Session,
  checks: readonly Check[],
): Promise<{ results: CheckResults; finish: () => Promise<void> }> {
  const results: CheckResults = new Map();
  const later: (() => Promise<void>)[] = [];
  const set = ({ rows }: Check, given: readonly CheckResult[]) =>
    rows.forEach((row, n) => results.set(row, given[n] ?? {}));
  for (const check of checks)
    await guarded(check, set, async () => {
      const result = await check.run(session);
      if (typeof result !== 'function') return result;
      later.push(() => guarded(check, set, result));
      return [];
    });
  const finish = async () => {
    for (const run of later) await run();
  };
  return { results, finish };
}

async function guarded(
  check: Check,
  set: (check: Check, results: readonly CheckResult[]) => void,
  run: () => Promise<CheckResult[]>,
): Promise<void> {
  try {
    set(check, await withTimeout(PART_TIMEOUT_MS, run));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    set(check, [{ note: `could not be checked: ${reason}` }]);
  }
}
