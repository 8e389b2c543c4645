// Preloaded into a measured process, which needs --expose-gc: collects garbage at SIGUSR2, and prints how often it has.
let collected = 0;

process.on('SIGUSR2', () => {
  globalThis.gc?.();
  collected += 1;
  console.log(`garbage collected ${collected} times`);
});
