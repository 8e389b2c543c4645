// One file is applied at a time, in all processes.
import { randomUUID } from 'node:crypto';
import { HttpError } from '../../http/errors.ts';
import { KEEP, type Store } from '../../store/store.ts';

export type Lock = {
  /** Throws HttpError 409 if it was lost, because the store could not be reached for a long time. */
  requireHeld(): void;
  release(): Promise<void>;
};

const LOCK = 'apply:lock';
/** A process that was killed keeps it so long. */
const LIFETIME_SECONDS = 10;
const RENEWAL_MS = 3000;

/** Throws HttpError 409 if another file is being applied. */
export async function acquireLock(store: Store): Promise<Lock> {
  const own = randomUUID();
  if (!(await store.add(LOCK, own, LIFETIME_SECONDS))) throw inProgress();
  let isLost = false;
  let renewing = Promise.resolve();
  const renew = async () => {
    await store
      .update<string>(LOCK, (holder) => {
        isLost = holder !== own;
        return isLost ? KEEP : { value: own, ttl: LIFETIME_SECONDS };
      })
      // The next renewal may succeed in time.
      .catch(() => undefined);
  };
  const timer = setInterval(() => (renewing = renewing.then(renew)), RENEWAL_MS).unref();
  return {
    requireHeld() {
      if (isLost) throw inProgress();
    },
    async release() {
      clearInterval(timer);
      await renewing;
      await store
        .update<string>(LOCK, (holder) => (holder === own ? undefined : KEEP))
        .catch(() => undefined);
    },
  };
}

function inProgress(): HttpError {
  return new HttpError(
    409,
    'apply_in_progress',
    'another file is being applied: try again when it is done',
  );
}
