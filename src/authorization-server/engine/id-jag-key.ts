// The key that an app proves when it presents an assertion: its access token is then bound to it (RFC 9449 section 5), as with any other grant type.
import type { KeyObject } from 'node:crypto';
import { errors, type KoaContextWithOIDC } from 'oidc-provider';
import { isRecent, dpopNonces } from '../../dpop/nonces.ts';
import { consumeProof, InvalidProof, validateProof } from '../../dpop/proof.ts';
import type { Store } from '../../store/store.ts';
import { invalidProof, PROOF_REUSED } from './dpop.ts';

export type KeyOptions = { store: Store; tokenEndpoint: string; nonceKey: KeyObject };

/** `use` refuses a proof that was used before: to be called when everything else is in order. */
export type ProvenKey = { thumbprint: string; use: () => Promise<void> };

/** The engine's own check is for its own grant types. Undefined without a proof; throws `invalid_dpop_proof` and `use_dpop_nonce`. */
export function keyProver({ store, tokenEndpoint: url, nonceKey }: KeyOptions, now: () => number) {
  const nonces = dpopNonces(nonceKey);
  return async function provenKey(ctx: KoaContextWithOIDC): Promise<ProvenKey | undefined> {
    const { headers, headersDistinct } = ctx.req;
    if (!headers.dpop) return undefined;
    const request = { method: ctx.method, url };
    const proof = await validateProof(headersDistinct.dpop, request, now()).catch(
      (error: unknown) => {
        throw error instanceof InvalidProof ? invalidProof(error.message) : error;
      },
    );
    if (!isRecent(nonces, proof, now())) {
      ctx.set('DPoP-Nonce', nonces.next(now()));
      throw new errors.UseDpopNonce('the DPoP proof is too old or from the future: use this nonce');
    }
    const use = async () => {
      if (!(await consumeProof(store, proof))) throw invalidProof(PROOF_REUSED);
    };
    return { thumbprint: proof.thumbprint, use };
  };
}
