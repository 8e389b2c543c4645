// One process at a time does a work, and another one takes over.
import { randomBytes } from 'node:crypto';
import { KEEP, type Store } from '../store/store.ts';

export type Lease = {
  /** Whether this process may work now. */
  isHeld(): boolean;
  /** Takes or prolongs the lease. Returns the milliseconds before the next call. */
  keep(): Promise<number>;
  /** Lets another process work at once. Never rejects. */
  release(): Promise<void>;
};

const LEASE_SECONDS = 8;
const RENEWAL_MS = 2000;
/** Another process may release the lease. */
const RETRY_MS = 1000;
/** A process that could not prolong the lease stops before it expires. */
const MARGIN_SECONDS = 2;

type LeaseRecord = { owner: string };

/** `key` names the work in the store. */
export function openLease(store: Store, key: string): Lease {
  const owner = randomBytes(12).toString('base64url');
  let heldUntil = -Infinity;
  return {
    isHeld: () => performance.now() < heldUntil,
    async keep() {
      const asked = performance.now();
      const found = await store.update<LeaseRecord>(key, (current) =>
        current === undefined || current.owner === owner
          ? { value: { owner }, ttl: LEASE_SECONDS }
          : KEEP,
      );
      const isOwn = found?.value.owner === owner;
      heldUntil = isOwn ? asked + (LEASE_SECONDS - MARGIN_SECONDS) * 1000 : -Infinity;
      return isOwn ? RENEWAL_MS : RETRY_MS;
    },
    async release() {
      heldUntil = -Infinity;
      const end = (current: LeaseRecord | undefined) =>
        current?.owner === owner ? undefined : KEEP;
      await store.update<LeaseRecord>(key, end).catch(() => undefined);
    },
  };
}
