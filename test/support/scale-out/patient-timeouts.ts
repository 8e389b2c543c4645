import { STORE_TIMEOUTS } from '../../../src/store/timeout.ts';

const PATIENCE_MS = 30_000;

/** For stores whose test is not about outages. The first commands on a busy machine can take more than a second. */
export const PATIENT_TIMEOUTS = {
  operation: PATIENCE_MS,
  command: PATIENCE_MS,
  open: PATIENCE_MS,
  silence: PATIENCE_MS,
};

/** Raises the timeouts of stores that this process opens from now on. Returns a function that restores them. */
export function waitForStore(): () => void {
  const present = { ...STORE_TIMEOUTS };
  Object.assign(STORE_TIMEOUTS, PATIENT_TIMEOUTS);
  return () => void Object.assign(STORE_TIMEOUTS, present);
}

/** Multiplies the timeouts of stores that this process opens from now on, for outages on a busy machine. Returns a function that restores them. */
export function multiplyStoreTimeouts(by: number): () => void {
  const present = { ...STORE_TIMEOUTS };
  for (const name of Object.keys(present) as (keyof typeof present)[]) STORE_TIMEOUTS[name] *= by;
  return () => void Object.assign(STORE_TIMEOUTS, present);
}
