// Watches a store being sealed anew: starts it, keeps what it logs, and waits for its end.
import type { Pace, Resealing, ResealingLogger } from '../../src/store/reseal.ts';
import type { OpenedStore } from '../../src/store/open.ts';
import { until } from './condition.ts';

export type Line = { level: 'info' | 'warn' | 'error'; message: string; details: object };

export type Watched = {
  lines: Line[];
  /** Resolves with the line that matches, once there are so many of them. */
  line(pattern: RegExp, count?: number): Promise<Line>;
  stop: Resealing['stop'];
};

export const DONE = /GATEHOUSE_PREVIOUS_SECRET can be removed/;
const AT_ONCE: Partial<Pace> = { rest: 0, retry: 0.05 };

export function watchResealing(store: OpenedStore, pace: Partial<Pace> = {}): Watched {
  const lines: Line[] = [];
  const keep = (level: Line['level']) => (details: object, message: string) =>
    void lines.push({ level, message, details });
  const logger: ResealingLogger = { info: keep('info'), warn: keep('warn'), error: keep('error') };
  const { stop } = store.startResealing(logger, { ...AT_ONCE, ...pace });
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

/** How many were sealed anew, as the last line says. */
export async function resealAll(store: OpenedStore, pace: Partial<Pace> = {}): Promise<number> {
  const watched = watchResealing(store, pace);
  try {
    const { details } = await watched.line(DONE);
    return 'resealed' in details ? Number(details.resealed) : NaN;
  } finally {
    await watched.stop();
  }
}
