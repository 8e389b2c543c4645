// What a check of the comparison is: rows of the table, and how one implementation gets its results in them.
import { PART_TIMEOUT_MS, withTimeout } from './time-limits.ts';
import type { Session } from './session.ts';

/** `passed` undefined: there is nothing to check here. `note` is for people. */
export type CheckResult = { passed?: boolean; note?: string };

export type Check = {
  /** What is claimed, one row each. */
  rows: readonly string[];
  /** A result for each row, or what is left to do once the grace for a repeated refresh is over everywhere. */
  run(session: Session): Promise<CheckResult[] | Later>;
};

export type Later = () => Promise<CheckResult[]>;

/** Longer than Gatehouse (60 s) and Better Auth (30 s) answer a turned refresh token again. */
export const GRACE_MS = 63_000;

export function passedIf(passed: boolean, note?: string): CheckResult {
  return { passed, ...(note === undefined ? {} : { note }) };
}

const RACES = 5;

/** Who wins a race once may lose it the next time. */
export async function repeatedly<Result>(race: () => Promise<Result>): Promise<Result[]> {
  const results: Result[] = [];
  while (results.length < RACES) results.push(await race());
  return results;
}

/** CheckResults of one implementation, by row; a check that ends in an error leaves its rows to be shown as such. */
export type CheckResults = Map<string, CheckResult>;

/** Resolves to the results so far, and to what adds the rest once the grace is over. */
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
