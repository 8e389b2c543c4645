// One file is applied at a time, in all processes.
import { randomUUID } from 'node:crypto';
import { HttpError } from '../../http/errors.ts';
import { KEEP, type Store } from '../../store/store.ts';

export type Lock = {
  /** Throws HttpError 409 if it may be lost, because the store could not be reached, or this process did not run, for a long time. */
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
  const until = (asked: number) => asked + LIFETIME_SECONDS * 1000;
  // From before the request, so that it never ends later here than in the store, also if this process was paused.
  let heldUntil = until(performance.now());
  if (!(await store.add(LOCK, own, LIFETIME_SECONDS))) throw inProgress();
  let renewing = Promise.resolve();
  const renew = async () => {
    const asked = performance.now();
    // The next renewal may succeed in time.
    const stored = await store
      .update<string>(LOCK, (holder) =>
        holder === own ? { value: own, ttl: LIFETIME_SECONDS } : KEEP,
      )
      .catch(() => 'unreachable' as const);
    if (stored === 'unreachable') return;
    heldUntil = stored?.value === own ? until(asked) : -Infinity;
  };
  const timer = setInterval(() => (renewing = renewing.then(renew)), RENEWAL_MS).unref();
  return {
    requireHeld() {
      if (performance.now() >= heldUntil) throw inProgress();
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
