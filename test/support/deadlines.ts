// Tests that measure time. `npm test` runs the files that import this module alone, after all others.

/** Milliseconds that users wait at most. */
export const DEADLINES = {
  /** A response while the store does not answer: 1.2 s of the store's timeout, and the request itself. */
  storeOutage: 1500,
  /** An error of the store while its database refuses connections. */
  storeDown: 500,
  /** A count while Redis does not answer: 0.2 s of its timeout. */
  countOutage: 500,
  /** A response to an oversized or deeply nested request. */
  hostileRequest: 2000,
  /** A page while an identity provider does not answer: nine seconds, with its timeouts a tenth as long. */
  providerOutage: 900,
  /** The check of a tool name of 300,000 characters. */
  longToolName: 100,
  /** The validation of a call with 100,000 members. */
  manyMembers: 300,
  /** The comparison of 900 headers with 100,000 arguments. */
  parameterHeaders: 1500,
  /** Reading 4 MB of records with a number that a double cannot represent. */
  longNumber: 500,
  /** Building the data set of the sample, before its first call. */
  sampleDataset: 300,
  /** A failed fetch of a metadata document that is padded to 0.1 s. */
  paddedFailure: 500,
  /** Until calls are refused after a revocation, while messages are delivered. */
  revocation: 1000,
} as const;

/** Returns the outcome of a measurement that began before the tests. Throws if there is none. */
export function outcomeOf(
  measured: ReadonlyMap<string, Promise<void>>,
  name: string,
): Promise<void> {
  const outcome = measured.get(name);
  if (!outcome) throw new Error(`there is no measurement of: ${name}`);
  return outcome;
}

/** A machine that does other work may delay one attempt, but not every one. */
const ATTEMPTS = 3;

/**
 * Repeats `attempt` until one takes at most the deadline. Rejects if none does, or if one rejects. Each attempt receives what `prepare`
 * resolved to, whose time does not count.
 */
export async function meetsDeadline<Prepared = undefined>(
  name: keyof typeof DEADLINES,
  attempt: (prepared: Prepared) => Promise<unknown>,
  prepare: () => Promise<Prepared> = async () => undefined as Prepared,
): Promise<void> {
  const times: number[] = [];
  while (times.length < ATTEMPTS) {
    const prepared = await prepare();
    const started = performance.now();
    await attempt(prepared);
    times.push(performance.now() - started);
    if ((times.at(-1) ?? 0) <= DEADLINES[name]) return;
  }
  const shown = times.map((time) => time.toFixed(0)).join(', ');
  throw new Error(`${name}: expected at most ${DEADLINES[name]} ms, took ${shown} ms`);
}
