// The long run, `npm run test:soak`.
import { appendFileSync } from 'node:fs';

/** Whether this is the long run. Files that import this module, also through others, belong to it. */
export const SOAK = Boolean(process.env.SOAK);

/** A line of the table at the end of the long run. */
export type SoakResult = {
  /** What ran, for example "200 rounds of 50 concurrent refreshes on Redis Cluster". */
  what: string;
  /** What held, in counts and rates, for example "10,000 refreshes, 0 lost, 41 per second". */
  held: string;
};

/** Adds a line to the table. Call it after all expectations of the test. */
export function recordSoak(result: SoakResult): void {
  const file = process.env.SOAK_RESULTS;
  if (SOAK && file !== undefined) appendFileSync(file, `${JSON.stringify(result)}\n`);
}
