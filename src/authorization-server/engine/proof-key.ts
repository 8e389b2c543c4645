// The key that a client proves at the token endpoint (RFC 9449 section 5), and what is bound to one: codes (section 10) and refresh tokens.
import type { KeyObject } from 'node:crypto';
import { calculateJwkThumbprint, decodeJwt, decodeProtectedHeader } from 'jose';
import { type Adapter, errors, type KoaContextWithOIDC } from 'oidc-provider';
import { consumeProof } from '../../dpop/proof.ts';
import type { Store } from '../../store/store.ts';
import { invalidGrant } from './refusals.ts';
import { requireRequest } from './request-records.ts';

/**
 * The engine's `features.dPoP`: offered, never required. A nonce is demanded of a client whose clock is wrong, and of nobody else: proofs are good
 * once and for minutes anyway, and a nonce costs each client another request.
 */
export function dPoP(nonceKey: KeyObject) {
  return { enabled: true, nonceSecret: nonceKey.export(), requireNonce: () => false };
}

/** What is left to do in a request once its proof is known to be new. */
export type LastSteps = WeakMap<object, () => Promise<void>>;

/**
 * `ReplayDetection` of the engine: one of many requests with a proof passes. It finds nothing, so that the engine always writes, which is when we
 * ask. The engine's id depends on the client; ours is that of every grant type.
 */
export function usedProofModel(store: Store, lastSteps: LastSteps): Partial<Adapter> {
  return {
    async upsert() {
      const ctx = requireRequest();
      const proof = await presentedProof(ctx);
      if (!proof)
        throw new Error('the engine recorded the use of something other than a DPoP proof');
      if (!(await consumeProof(store, proof))) throw badProof(USED_BEFORE);
      await lastSteps.get(ctx)?.();
    },
  };
}

/** The proof of a request, which the engine has verified. */
async function presentedProof({ req }: KoaContextWithOIDC) {
  const proof = req.headers.dpop;
  if (!proof) return undefined;
  const { jwk = {} } = decodeProtectedHeader(String(proof));
  const { jti = '' } = decodeJwt(String(proof));
  return { thumbprint: await calculateJwkThumbprint(jwk), id: jti };
}

/**
 * Asked when a bound code or refresh token is found, so before anything is used up, noted or ended: whoever does not have the key gets a refusal
 * and changes nothing. The engine has checked the proof by then, but asks whose it is only later.
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

export const USED_BEFORE = 'the DPoP proof was used before: make one for each request';

/** RFC 9449 section 5. */
export function badProof(description: string): Error {
  return new errors.InvalidDpopProof(description);
}
