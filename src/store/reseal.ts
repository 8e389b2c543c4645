// Seals anew, in the background, what is still sealed with the root secret before the present one, until nothing needs that any more.
import { setTimeout as delay } from 'node:timers/promises';
import type { ByteStore, Rewriting } from './byte-store.ts';
import type { Logger } from './logger.ts';
import { openSealer, type SealerKeys } from './seal.ts';
import { memberPlace } from './sealed.ts';

export type Resealing = {
  /** Resolves when the store is not used any more. */
  stop(): Promise<void>;
};

export type ResealingLogger = Logger & { info(details: object, message: string): void };

/** All in seconds. */
export type Pace = {
  /** Between two batches: what makes it gentle to the store. */
  rest: number;
  /** Between two reports of progress. */
  report: number;
  /** Before it begins again after the store failed. */
  retry: number;
  /** Before it looks again, for what a process that still had the old secret wrote late. */
  again: number;
};

const PACE: Pace = { rest: 0.05, report: 30, retry: 10, again: 3600 };

const STARTED = 'records that are sealed with the previous root secret are sealed with the new one';
const INTERRUPTED = 'sealing with the new root secret is interrupted and will begin again';
const DONE =
  'no record is sealed with the previous root secret any more: GATEHOUSE_PREVIOUS_SECRET can be removed once all processes ' +
  'have the new one; audit entries from before, and refresh tokens and sign-ins not used since, end with it';

/**
 * Goes through the store until nothing is left to do, and again now and then; begins again when the store fails. Does nothing when
 * there is no previous key. Several processes may do it at once.
 */
export function startResealing(
  bytes: ByteStore,
  keys: SealerKeys,
  logger: ResealingLogger,
  pace: Partial<Pace> = {},
): Resealing {
  const stopping = new AbortController();
  const { signal } = stopping;
  const work = { bytes, rewriting: resealWith(keys), logger, pace: { ...PACE, ...pace }, signal };
  const working = keys.ring.length > 1 ? resealUntilStopped(work) : undefined;
  const stopped = working?.catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  return {
    async stop() {
      stopping.abort();
      await stopped;
    },
  };
}

/** Leaves alone what the first key opens, and what none opens. */
function resealWith({ naming, ring }: SealerKeys): Rewriting {
  const present = openSealer({ naming, ring: ring.slice(0, 1) });
  const all = openSealer({ naming, ring });
  return (sealed, name, field) => {
    const place = field === undefined ? name : memberPlace(name, field);
    if (present.open(place, sealed) !== undefined) return undefined;
    const value = all.open(place, sealed);
    return value === undefined ? undefined : present.seal(place, value);
  };
}

type Work = {
  bytes: ByteStore;
  rewriting: Rewriting;
  logger: ResealingLogger;
  pace: Pace;
  signal: AbortSignal;
};

/** Only a round that found nothing is the end: records may move about in the store while they are gone through. */
async function resealUntilStopped(work: Work): Promise<never> {
  const { logger, pace, signal } = work;
  let total = 0;
  let announced: number | undefined;
  let isInterrupted = false;
  const report = reporter(logger, pace.report);
  logger.info({}, STARTED);
  for (;;) {
    const before = total;
    try {
      for await (const count of work.bytes.rewrite(work.rewriting)) {
        total += count;
        report(total);
        await rest(pace.rest, signal);
      }
      isInterrupted = false;
    } catch (cause) {
      signal.throwIfAborted();
      if (!isInterrupted) logger.warn({ err: cause }, INTERRUPTED);
      isInterrupted = true;
      await rest(pace.retry, signal);
      continue;
    }
    if (total > before) continue;
    if (total !== announced) logger.info({ resealed: total }, DONE);
    announced = total;
    await rest(pace.again, signal);
  }
}

function reporter(
  logger: ResealingLogger,
  every: number,
  now = () => performance.now() / 1000,
): (resealed: number) => void {
  let next = now() + every;
  return (resealed) => {
    if (now() < next) return;
    next = now() + every;
    logger.info({ resealed }, 'sealing with the new root secret goes on');
  };
}

/** Rejects when the signal is aborted. Never the reason why a process stays. */
function rest(seconds: number, signal: AbortSignal): Promise<void> {
  return delay(seconds * 1000, undefined, { signal, ref: false });
}
