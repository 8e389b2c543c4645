import { hkdfSync, type KeyObject } from 'node:crypto';
import { MAX_CLOCK_SKEW_SECONDS, type Proof } from './proof.ts';

const STEP_SECONDS = 60;
/** Offsets from the current step. */
const ACCEPTED_STEPS = [-2, -1, 0, 1, 2];

/**
 * Nonces for DPoP proofs (RFC 9449 sections 8 and 9), derived from a key and the time, so that none is stored. They equal those of
 * `oidc-provider`, because clients store nonces per origin and both servers may share one.
 */
export function dpopNonces(key: KeyObject) {
  const nonceAt = (now: number, offset: number) => {
    const step = Buffer.alloc(8);
    step.writeBigUInt64BE(BigInt(Math.floor(now / STEP_SECONDS) + offset));
    return Buffer.from(hkdfSync('sha256', key, step, 'DPoP', 32)).toString('base64url');
  };
  return {
    /** Returns a nonce that is valid for three to four minutes. */
    next: (now: number): string => nonceAt(now, 1),
    isValid: (nonce: string, now: number): boolean =>
      ACCEPTED_STEPS.some((offset) => nonceAt(now, offset) === nonce),
  };
}

export type DpopNonces = ReturnType<typeof dpopNonces>;

/**
 * Checks the nonce if the proof has one, else `iat`, as `oidc-provider` does. Accepting either would allow a replay: a proof from a fast clock,
 * accepted for its nonce, would be accepted for its `iat` after its `jti` is forgotten.
 */
export function isRecent(nonces: DpopNonces, { nonce, issuedAt }: Proof, now: number): boolean {
  if (nonce) return nonces.isValid(nonce, now);
  return Math.abs(now - issuedAt) <= MAX_CLOCK_SKEW_SECONDS;
}
