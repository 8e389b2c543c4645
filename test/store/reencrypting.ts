// Watches a store being re-encrypted: starts it, keeps what it logs, and waits for its end.
import type { Pace, Reencryption, ReencryptionLogger } from '../../src/store/reencrypt.ts';
import type { OpenedStore } from '../../src/store/open.ts';
import { until } from './condition.ts';

export type Line = { level: 'info' | 'warn' | 'error'; message: string; details: object };

export type Watched = {
  lines: Line[];
  /** Resolves with the line that matches, once there are so many of them. */
  line(pattern: RegExp, count?: number): Promise<Line>;
  stop: Reencryption['stop'];
};

export const DONE = /GATEHOUSE_PREVIOUS_SECRET can be removed/;
const AT_ONCE: Partial<Pace> = { rest: 0, retry: 0.05 };

export function watchReencryption(store: OpenedStore, pace: Partial<Pace> = {}): Watched {
  const lines: Line[] = [];
  const keep = (level: Line['level']) => (details: object, message: string) =>
    void lines.push({ level, message, details });
  const logger: ReencryptionLogger = {
    info: keep('info'),
    warn: keep('warn'),
    error: keep('error'),
  };
  const { stop } = store.startReencryption(logger, { ...AT_ONCE, ...pace });
  return {
    lines,
    stop,
    line: (pattern, count = 1) =>
      until(
        `${pattern} is logged`,
        () => lines.filter(({ message }) => pattern.test(message))[count - 1],
      ),
  };
}

/** How many were re-encrypted, as the last line says. */
export async function reencryptAll(store: OpenedStore, pace: Partial<Pace> = {}): Promise<number> {
  const watched = watchReencryption(store, pace);
  try {
    const { details } = await watched.line(DONE);
    return 'reencrypted' in details ? Number(details.reencrypted) : NaN;
  } finally {
    await watched.stop();
  }
}
