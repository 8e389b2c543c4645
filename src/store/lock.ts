// Work that one process does at a time.
import { randomUUID } from 'node:crypto';
import { KEEP, type Store } from './store.ts';

export type Lock = {
  /** False if it may be lost, because the store could not be reached, or this process did not run, for a long time. */
  isHeld(): boolean;
  release(): Promise<void>;
};

/** A process that was killed keeps it so long. */
const LIFETIME_SECONDS = 10;
const RENEWAL_MS = 3000;

/** Renews the lock until it is released. Undefined if another process has it. */
export async function acquireLock(store: Store, key: string): Promise<Lock | undefined> {
  const own = randomUUID();
  const until = (asked: number) => asked + LIFETIME_SECONDS * 1000;
  // From before the request, so that it never ends later here than in the store, also if this process was paused.
  let heldUntil = until(performance.now());
  if (!(await store.add(key, own, LIFETIME_SECONDS))) return undefined;
  let renewing = Promise.resolve();
  const renew = async () => {
    const asked = performance.now();
    // The next renewal may succeed in time.
    const stored = await store
      .update<string>(key, (holder) =>
        holder === own ? { value: own, ttl: LIFETIME_SECONDS } : KEEP,
      )
      .catch(() => 'unreachable' as const);
    if (stored === 'unreachable') return;
    heldUntil = stored?.value === own ? until(asked) : -Infinity;
  };
  const timer = setInterval(() => (renewing = renewing.then(renew)), RENEWAL_MS).unref();
  return {
    isHeld: () => performance.now() < heldUntil,
    async release() {
      clearInterval(timer);
      await renewing;
      await store
        .update<string>(key, (holder) => (holder === own ? undefined : KEEP))
        .catch(() => undefined);
    },
  };
}
