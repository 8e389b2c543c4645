// Re-encrypts, in the background, what is still encrypted with the root secret before the present one, until nothing needs that any more.
import { setTimeout as delay } from 'node:timers/promises';
import type { ByteStore, Rewriting } from './byte-store.ts';
import type { Logger } from './logger.ts';
import { createEncryption, type EncryptionKeys } from './encryption.ts';
import { memberPlace } from './encrypted-store.ts';

export type Reencryption = {
  /** Resolves when the store is not used any more. */
  stop(): Promise<void>;
};

export type ReencryptionLogger = Logger & { info(details: object, message: string): void };

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

const STARTED =
  'records encrypted with the previous root secret are being re-encrypted with the new one';
const INTERRUPTED = 're-encryption with the new root secret was interrupted and will be retried';
const DONE =
  'no record is encrypted with the previous root secret any more: GATEHOUSE_PREVIOUS_SECRET can be removed once all processes ' +
  'have the new one; audit entries from before, and refresh tokens and sign-ins not used since, end with it';

/**
 * Goes through the store until nothing is left to do, and again now and then; begins again when the store fails. Does nothing when
 * there is no previous key. Several processes may do it at once.
 */
export function startReencryption(
  bytes: ByteStore,
  keys: EncryptionKeys,
  logger: ReencryptionLogger,
  pace: Partial<Pace> = {},
): Reencryption {
  const stopping = new AbortController();
  const { signal } = stopping;
  const work = {
    bytes,
    rewriting: reencryptWith(keys),
    logger,
    pace: { ...PACE, ...pace },
    signal,
  };
  const working = keys.ring.length > 1 ? reencryptUntilStopped(work) : undefined;
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
function reencryptWith({ naming, ring }: EncryptionKeys): Rewriting {
  const present = createEncryption({ naming, ring: ring.slice(0, 1) });
  const all = createEncryption({ naming, ring });
  return (encrypted, name, field) => {
    const place = field === undefined ? name : memberPlace(name, field);
    if (present.decrypt(place, encrypted) !== undefined) return undefined;
    const value = all.decrypt(place, encrypted);
    return value === undefined ? undefined : present.encrypt(place, value);
  };
}

type Work = {
  bytes: ByteStore;
  rewriting: Rewriting;
  logger: ReencryptionLogger;
  pace: Pace;
  signal: AbortSignal;
};

/** Only a round that found nothing is the end: records may move about in the store while they are gone through. */
async function reencryptUntilStopped(work: Work): Promise<never> {
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
    if (total !== announced) logger.info({ reencrypted: total }, DONE);
    announced = total;
    await rest(pace.again, signal);
  }
}

function reporter(
  logger: ReencryptionLogger,
  every: number,
  now = () => performance.now() / 1000,
): (reencrypted: number) => void {
  let next = now() + every;
  return (reencrypted) => {
    if (now() < next) return;
    next = now() + every;
    logger.info({ reencrypted }, 're-encryption with the new root secret in progress');
  };
}

/** Rejects when the signal is aborted. Never the reason why a process stays. */
function rest(seconds: number, signal: AbortSignal): Promise<void> {
  return delay(seconds * 1000, undefined, { signal, ref: false });
}
