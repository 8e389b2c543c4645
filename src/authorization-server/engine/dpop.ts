// DPoP at the token endpoint (RFC 9449 section 5), including codes (section 10) and refresh tokens that are bound to a key.
import type { KeyObject } from 'node:crypto';
import { calculateJwkThumbprint, decodeJwt, decodeProtectedHeader } from 'jose';
import { type Adapter, errors, type KoaContextWithOIDC } from 'oidc-provider';
import { consumeProof } from '../../dpop/proof.ts';
import type { Store } from '../../store/store.ts';
import { invalidGrant } from './errors.ts';
import { requireRequest } from './request-records.ts';

/**
 * The engine's `features.dPoP`. DPoP is optional. The engine demands a nonce only if the client's clock is wrong: proofs are single-use and
 * short-lived anyway, and a nonce costs each client another request.
 */
export function dPoP(nonceKey: KeyObject) {
  return { enabled: true, nonceSecret: nonceKey.export(), requireNonce: () => false };
}

/** The step of a request that must follow the replay check of its proof. */
export type LastSteps = WeakMap<object, () => Promise<void>>;

/**
 * The engine's `ReplayDetection` model. Exactly one of concurrent requests with a proof passes. `find` returns nothing, so that the engine
 * always calls `upsert`. The engine's id depends on the client; ours is the same for every grant type.
 */
export function usedProofModel(store: Store, lastSteps: LastSteps): Partial<Adapter> {
  return {
    async upsert() {
      const ctx = requireRequest();
      const proof = await presentedProof(ctx);
      if (!proof)
        throw new Error('the engine used ReplayDetection for something other than a DPoP proof');
      if (!(await consumeProof(store, proof))) throw invalidProof(PROOF_REUSED);
      await lastSteps.get(ctx)?.();
    },
  };
}

/** The proof of the request, which the engine has already verified. */
async function presentedProof({ req }: KoaContextWithOIDC) {
  const proof = req.headers.dpop;
  if (!proof) return undefined;
  const { jwk = {} } = decodeProtectedHeader(String(proof));
  const { jti = '' } = decodeJwt(String(proof));
  return { thumbprint: await calculateJwkThumbprint(jwk), id: jti };
}

/**
 * Call when a bound code or refresh token is found, before anything is written: a request without the key changes nothing. The engine has
 * verified the proof by then, but compares its key only later.
 */
export async function requireBoundKey(
  ctx: KoaContextWithOIDC,
  what: 'authorization code' | 'refresh token',
  thumbprint: unknown,
): Promise<void> {
  if (thumbprint === undefined) return;
  const proof = await presentedProof(ctx);
  if (!proof) throw invalidGrant(`the ${what} is bound to a key: send a DPoP proof made with it`);
  if (proof.thumbprint !== thumbprint)
    throw invalidGrant(`the ${what} is bound to another key than the one of the DPoP proof`);
}

export const PROOF_REUSED = 'the DPoP proof was used before: make one for each request';

/** RFC 9449 section 5. */
export function invalidProof(description: string): Error {
  return new errors.InvalidDpopProof(description);
}
