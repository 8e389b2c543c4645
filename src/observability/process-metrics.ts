// The metrics of the process as a whole: processor, memory, garbage, delay of the event loop.
import { collectDefaultMetrics, Registry } from 'prom-client';

let opened: Registry | undefined;

/** Opened once, however many systems a process runs: they watch the same event loop. */
export function processMetrics(): Registry {
  if (opened) return opened;
  opened = new Registry();
  collectDefaultMetrics({ register: opened });
  return opened;
}
