// Which DPoP proofs were used: each is good for one request (RFC 9449 section 11.1), whichever process it reaches.
import type { Store } from '../store/store.ts';
import { PROOF_WINDOW } from './proof.ts';

/** Of a proof from a clock that is ahead as far as it may be. */
const LONGEST_LIFE = 2 * PROOF_WINDOW + 1;

/** True for exactly one caller. `id` says whose proof it is, too: others may choose the same `jti`. */
export function useProof(store: Store, id: string): Promise<boolean> {
  return store.add(`dpop-proof:${id}`, true, LONGEST_LIFE);
}
