// Which DPoP proofs were used: each is single-use (RFC 9449 section 11.1), for every grant type, client and process.
import type { Store } from '../store/store.ts';
import { type Proof, PROOF_WINDOW } from './proof.ts';

/** Of a proof from a clock that is ahead as far as it may be. */
const LONGEST_LIFE = 2 * PROOF_WINDOW + 1;

/** Returns true to exactly one caller. The `jti` alone does not name a proof, because other keys may choose the same one. */
export function useProof(
  store: Store,
  { thumbprint, id }: Pick<Proof, 'thumbprint' | 'id'>,
): Promise<boolean> {
  return store.add(`dpop-proof:${thumbprint}\n${id}`, true, LONGEST_LIFE);
}
