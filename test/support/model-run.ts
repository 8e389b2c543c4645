// Runs of the models: a few runs in `npm test`, or as many as fit into FUZZ_SECONDS (`npm run fuzz`).
import * as fc from 'fast-check';

/** Seconds of the long form of each model; 0 in the short form. */
export const FUZZ_SECONDS = Number(process.env.FUZZ_SECONDS ?? 0);

/** Always the same in the short form, so that it draws enough of each kind in every run. */
const SHORT_SEED = 20261122;

/** The seed in the variable, else that of the short form; none in the long form. For parameters of fast-check. */
export function seedIn(variable: 'FUZZ_SEED' | 'FUZZ_WORLD'): { seed?: number } {
  const given = process.env[variable];
  if (given !== undefined) return { seed: Number(given) };
  return FUZZ_SECONDS > 0 ? {} : { seed: SHORT_SEED };
}

/** Milliseconds that a test with a model may take. */
export const MODEL_TIMEOUT_MS = FUZZ_SECONDS * 1000 + 120_000;

/**
 * Checks the property `runs` times, or for `seconds`. Throws with the smallest counterexample and the seed that reproduces it; FUZZ_SEED
 * is the seed. The long form prints what ran. With `keepsState`, the state outlives a run, so that a smaller example would say nothing.
 */
export async function checkModel<T>(
  name: string,
  property: fc.IRawProperty<T>,
  runs: number,
  { seconds = FUZZ_SECONDS, keepsState = false } = {},
): Promise<void> {
  const isLong = seconds > 0;
  const details = await fc.check(property, {
    ...seedIn('FUZZ_SEED'),
    endOnFailure: keepsState,
    ...(isLong
      ? { numRuns: Infinity, interruptAfterTimeLimit: seconds * 1000 }
      : { numRuns: runs }),
  });
  if (isLong) console.log(`      ${name}: ${details.numRuns} runs, seed ${details.seed}`);
  if (!details.failed) return;
  const cause = details.errorInstance;
  throw new Error(fc.defaultReportMessage(details) ?? 'the model failed', { cause });
}
