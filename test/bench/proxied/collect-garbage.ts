// Preloaded into a measured process, which needs --expose-gc: at SIGUSR2, prints the longest pause of its event loop since the last one, collects
// garbage, and prints how often it has.
import { monitorEventLoopDelay } from 'node:perf_hooks';

let collected = 0;
// Costs little, but only when it is needed.
const pauses = monitorEventLoopDelay({ resolution: 1 });

process.on('SIGUSR2', () => {
  const pause = (pauses.max / 1e6).toFixed(1);
  globalThis.gc?.();
  collected += 1;
  console.log(`longest pause ${collected}: ${pause} ms`);
  console.log(`garbage collected ${collected} times`);
  pauses.enable();
  pauses.reset();
});
