import type { BackgroundLoop } from '../../src/background-loop.ts';
import type { OpenedStore } from '../../src/store/open.ts';
import type { RewrapIntervals, RewrapLogger, RewrapProgress } from '../../src/store/rewrap.ts';
import { until } from '../support/until.ts';

export type Line = { level: 'info' | 'warn' | 'error'; message: string; details: object };

export type Watched = {
  lines: Line[];
  /** Resolves with the `count`-th line that matches. */
  line(pattern: RegExp, count?: number): Promise<Line>;
  stop: BackgroundLoop['stop'];
};

const AT_ONCE: Partial<RewrapIntervals> = { pause: 0, retry: 0.05 };

export function watchRewrapping(
  store: Pick<OpenedStore, 'rewrap'>,
  intervals: Partial<RewrapIntervals> = {},
): Watched {
  const lines: Line[] = [];
  const keep = (level: Line['level']) => (details: object, message: string) =>
    void lines.push({ level, message, details });
  const logger: RewrapLogger = {
    info: keep('info'),
    warn: keep('warn'),
    error: keep('error'),
  };
  const { stop } = store.rewrap.start(logger, { ...AT_ONCE, ...intervals });
  return {
    lines,
    stop,
    line: (pattern, count = 1) =>
      until(
        `a log line ${pattern}`,
        () => lines.filter(({ message }) => pattern.test(message))[count - 1],
      ),
  };
}

/** Runs passes until nothing remains. */
export async function rewrapAll(
  store: OpenedStore,
): Promise<{ lines: Line[]; progress: RewrapProgress }> {
  const { lines, stop } = watchRewrapping(store);
  try {
    return { lines, progress: await store.rewrap.run({ waitMs: 60_000 }) };
  } finally {
    await stop();
  }
}
