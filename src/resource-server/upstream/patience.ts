// How long a call waits for the upstream: until the whole answer is there, or while a stream is silent.
import { tooSlow } from './faults.ts';

export type Patience = {
  /** Aborted with a 504 when patience ends. */
  signal: AbortSignal;
  /** From now on, `seconds` from one `heard` to the next. */
  waitOnly(seconds: number): void;
  heard(): void;
  end(): void;
};

export function openPatience(seconds: number): Patience {
  const over = new AbortController();
  const start = (wait: number) => setTimeout(() => over.abort(tooSlow(wait)), wait * 1000);
  let timer = start(seconds);
  return {
    signal: over.signal,
    waitOnly(wait) {
      clearTimeout(timer);
      timer = start(wait);
    },
    heard: () => void timer.refresh(),
    end: () => clearTimeout(timer),
  };
}
