import { setTimeout as delay } from 'node:timers/promises';
import { type BackgroundLoop, startLoop } from '../background-loop.ts';
import type { ByteStore, Transform } from './byte-store.ts';
import { memberPlace } from './encrypted-store.ts';
import { createEncryption, type EncryptionKeys } from './encryption.ts';
import type { StoreLogger } from './store.ts';

export type ReencryptionLogger = StoreLogger & { info(details: object, message: string): void };

/** All in seconds. */
export type ReencryptionIntervals = {
  /** Between two batches, to limit the load on the store. */
  pause: number;
  /** Between two log lines about progress. */
  report: number;
  /** Before a new attempt after the store failed. */
  retry: number;
  /** Before the next pass, which covers values that a process with the old secret wrote meanwhile. */
  repeat: number;
};

const INTERVALS: ReencryptionIntervals = { pause: 0.05, report: 30, retry: 10, repeat: 3600 };

const STARTED =
  'records encrypted with the previous root secret are being re-encrypted with the new one';
const INTERRUPTED = 're-encryption with the new root secret was interrupted and will be retried';
const DONE =
  'no record is encrypted with the previous root secret any more: GATEHOUSE_PREVIOUS_SECRET can be removed once all processes ' +
  'have the new one; audit entries from before, and refresh tokens and sign-ins not used since, end with it';

/**
 * Re-encrypts every value of the previous root secret in the background, in passes until none is left, and repeats periodically. Retries when
 * the store fails. Does nothing without a previous secret. Several processes may run it at once.
 */
export function startReencryption(
  bytes: ByteStore,
  keys: EncryptionKeys,
  logger: ReencryptionLogger,
  intervals: Partial<ReencryptionIntervals> = {},
): BackgroundLoop {
  if (keys.ring.length === 1) return { stop: () => Promise.resolve() };
  const transform = reencryptWith(keys);
  return startLoop(
    reencryptor({ bytes, transform, logger, intervals: { ...INTERVALS, ...intervals } }),
  );
}

/** Skips values that the current key decrypts, and values that no key decrypts. */
function reencryptWith({ nameKey, ring }: EncryptionKeys): Transform {
  const current = createEncryption({ nameKey, ring: ring.slice(0, 1) });
  const all = createEncryption({ nameKey, ring });
  return (encrypted, name, field) => {
    const place = field === undefined ? name : memberPlace(name, field);
    if (current.decrypt(place, encrypted) !== undefined) return undefined;
    const value = all.decrypt(place, encrypted);
    return value === undefined ? undefined : current.encrypt(place, value);
  };
}

type Job = {
  bytes: ByteStore;
  transform: Transform;
  logger: ReencryptionLogger;
  intervals: ReencryptionIntervals;
};

/** A pass over the store. Finished only after one that replaced nothing, because records may move within the store during a pass. */
function reencryptor({ bytes, transform, logger, intervals }: Job) {
  let total = 0;
  let announced: number | undefined;
  let isInterrupted = false;
  const report = progressReporter(logger, intervals.report);
  logger.info({}, STARTED);
  return async (signal: AbortSignal): Promise<number> => {
    const before = total;
    try {
      for await (const count of bytes.rewrite(transform)) {
        total += count;
        report(total);
        await delay(intervals.pause * 1000, undefined, { signal, ref: false });
      }
      isInterrupted = false;
    } catch (cause) {
      signal.throwIfAborted();
      if (!isInterrupted) logger.warn({ err: cause }, INTERRUPTED);
      isInterrupted = true;
      return intervals.retry * 1000;
    }
    if (total > before) return 0;
    if (total !== announced) logger.info({ reencrypted: total }, DONE);
    announced = total;
    return intervals.repeat * 1000;
  };
}

function progressReporter(
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
