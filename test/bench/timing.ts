// Times and medians.

/** Milliseconds until `act` settles. */
export async function timeOf(act: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await act();
  return performance.now() - started;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const [low = NaN, high = NaN] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
  return (low + high) / 2;
}
