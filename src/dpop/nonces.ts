// Nonces for DPoP proofs (RFC 9449 sections 8 and 9): made from a key and the minute, so that every process knows them and none is kept.
import { hkdfSync, type KeyObject } from 'node:crypto';
import { type Proof, PROOF_WINDOW } from './proof.ts';

/** The key must never change, or two processes would each refuse the nonces of the other while it does. */
export const NONCE_KEY = 'dpop-nonces';

const STEP = 60;
/** Steps before and after the one that has begun. */
const ACCEPTED = [-2, -1, 0, 1, 2];

/** As the engine makes them, so that both take each other's where they share an origin, by which clients keep nonces. */
export function proofNonces(key: KeyObject) {
  const made = (now: number, offset: number) => {
    const step = Buffer.alloc(8);
    step.writeBigUInt64BE(BigInt(Math.floor(now / STEP) + offset));
    return Buffer.from(hkdfSync('sha256', key, step, 'DPoP', 32)).toString('base64url');
  };
  return {
    /** Good for three to four minutes. */
    next: (now: number): string => made(now, 1),
    isGood: (nonce: string, now: number): boolean =>
      ACCEPTED.some((offset) => made(now, offset) === nonce),
  };
}

export type ProofNonces = ReturnType<typeof proofNonces>;

/**
 * By its nonce if it names one, else by its time, as the engine judges. Never by either: a proof from a clock that is ahead, taken for its nonce,
 * would be good again when its time comes, long after we forgot that it was used.
 */
export function isRecent(nonces: ProofNonces, { nonce, issuedAt }: Proof, now: number): boolean {
  if (nonce) return nonces.isGood(nonce, now);
  return Math.abs(now - issuedAt) <= PROOF_WINDOW;
}
