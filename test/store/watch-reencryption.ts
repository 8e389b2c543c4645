import type { BackgroundLoop } from '../../src/background-loop.ts';
import type { ReencryptionIntervals, ReencryptionLogger } from '../../src/store/reencrypt.ts';
import type { OpenedStore } from '../../src/store/open.ts';
import { until } from '../support/until.ts';

export type Line = { level: 'info' | 'warn' | 'error'; message: string; details: object };

export type Watched = {
  lines: Line[];
  /** Resolves with the `count`-th line that matches. */
  line(pattern: RegExp, count?: number): Promise<Line>;
  stop: BackgroundLoop['stop'];
};

export const DONE = /GATEHOUSE_PREVIOUS_SECRET can be removed/;
const AT_ONCE: Partial<ReencryptionIntervals> = { pause: 0, retry: 0.05 };

export function watchReencryption(
  store: OpenedStore,
  intervals: Partial<ReencryptionIntervals> = {},
): Watched {
  const lines: Line[] = [];
  const keep = (level: Line['level']) => (details: object, message: string) =>
    void lines.push({ level, message, details });
  const logger: ReencryptionLogger = {
    info: keep('info'),
    warn: keep('warn'),
    error: keep('error'),
  };
  const { stop } = store.startReencryption(logger, { ...AT_ONCE, ...intervals });
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

/** Returns the number of re-encrypted values from the log. */
export async function reencryptAll(
  store: OpenedStore,
  intervals: Partial<ReencryptionIntervals> = {},
): Promise<number> {
  const watched = watchReencryption(store, intervals);
  try {
    const { details } = await watched.line(DONE);
    return 'reencrypted' in details ? Number(details.reencrypted) : NaN;
  } finally {
    await watched.stop();
  }
}
