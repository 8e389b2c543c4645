// Waiting for a condition, for what comes about on its own in its own time.
import { setTimeout as delay } from 'node:timers/promises';

const BETWEEN_LOOKS_MS = 10;

/** Rejects when `condition` does not hold within `seconds`. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  seconds = 10,
): Promise<void> {
  const end = performance.now() + seconds * 1000;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`this did not happen: ${condition}`);
    await delay(BETWEEN_LOOKS_MS);
  }
}
