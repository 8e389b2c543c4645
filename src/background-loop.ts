import { setTimeout as delay } from 'node:timers/promises';

export type BackgroundLoop = {
  /** Resolves when the last run has ended. */
  stop(): Promise<void>;
};

/** Repeats `run`, which returns the milliseconds before the next run and rejects only when stopped. Does not keep the process running. */
export function startLoop(run: (signal: AbortSignal) => Promise<number>): BackgroundLoop {
  const stopping = new AbortController();
  const { signal } = stopping;
  const repeat = async () => {
    while (!signal.aborted) await delay(await run(signal), undefined, { signal, ref: false });
  };
  const running = repeat().catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  return {
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
