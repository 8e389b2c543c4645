// DPoP at the token endpoint (RFC 9449 section 5), including codes (section 10) and refresh tokens that are bound to a key.
import type { KeyObject } from 'node:crypto';
import { calculateJwkThumbprint, decodeJwt, decodeProtectedHeader } from 'jose';
import { errors, type KoaContextWithOIDC } from 'oidc-provider';
import { dpopNonces, isRecent } from '../../dpop/nonces.ts';
import { consumeProof, InvalidProof, validateProof } from '../../dpop/proof.ts';
import { type DpopSettings, levelWithoutDpop } from '../../dpop/required-levels.ts';
import type { Level } from '../../permission-levels.ts';
import type { Store } from '../../store/store.ts';
import { invalidGrant } from './errors.ts';

/**
 * The engine's `features.dPoP`. DPoP is optional. The engine demands a nonce only if the client's clock is wrong: proofs are single-use and
 * short-lived anyway, and a nonce costs each client another request.
 */
export function dpopFeature(nonceKey: KeyObject) {
  return { enabled: true, nonceSecret: nonceKey.export(), requireNonce: () => false };
}

/** The proof of the request, which the engine has already verified. */
export async function presentedProof({ req }: KoaContextWithOIDC) {
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
  if (!proof) throw invalidGrant(`the ${what} is bound to a key: send a DPoP proof signed with it`);
  if (proof.thumbprint !== thumbprint)
    throw invalidGrant(`the ${what} is bound to a different key than that of the DPoP proof`);
}

/**
 * Whether the access token of this request may have a level that requires DPoP. A proof is not enough at a refresh with a token that anybody
 * who copied it could use: it must be bound to the key, or to the secret of the client.
 */
function isSenderConstrained(
  { req, oidc: { client } }: KoaContextWithOIDC,
  refreshToken: { jkt?: unknown } | undefined,
): boolean {
  if (!req.headers.dpop) return false;
  if (!refreshToken || refreshToken.jkt !== undefined) return true;
  return client !== undefined && client.clientAuthMethod !== 'none';
}

/**
 * Returns `level`, or the highest level below it that needs no DPoP if the token of the request cannot be bound. `refreshToken` is the presented
 * one. Undefined if every level needs DPoP.
 */
export function levelOfProof(
  settings: DpopSettings,
  ctx: KoaContextWithOIDC,
  level: Level,
  refreshToken?: { jkt?: unknown },
): Level | undefined {
  return isSenderConstrained(ctx, refreshToken) ? level : levelWithoutDpop(settings, level);
}

/**
 * Like `levelOfProof`, but rejects with `invalid_dpop_proof` or, for a refresh token that can never get a bound token, with `invalid_grant` if
 * there is no lower level. Call it before anything is written.
 */
export function requireLevelOfProof(
  settings: DpopSettings,
  ctx: KoaContextWithOIDC,
  level: Level,
  refreshToken?: { jkt?: unknown },
): Level {
  const allowed = levelOfProof(settings, ctx, level, refreshToken);
  if (allowed !== undefined) return allowed;
  if (refreshToken && ctx.oidc.client?.clientAuthMethod === 'none')
    throw invalidGrant(
      'access tokens of this level must be bound to a key, and this refresh token is not: connect again with a DPoP proof',
      'dpop_required',
    );
  throw invalidProof(
    `access tokens of the level ${level} must be bound to a key: send a DPoP proof (RFC 9449) with each token request`,
  );
}

/** RFC 9449 section 5. */
function invalidProof(description: string): Error {
  return new errors.InvalidDpopProof(description);
}

/** RFC 9449 section 5.2. */
function withoutProof({ oidc: { client } }: KoaContextWithOIDC): undefined {
  if ((client as { dpopBoundAccessTokens?: boolean } | undefined)?.dpopBoundAccessTokens)
    throw invalidProof(
      'this client registered dpop_bound_access_tokens: send a DPoP proof with each token request',
    );
}

export function proofReused(): Error {
  return invalidProof('the DPoP proof was already used: create one for each request');
}

export type DpopVerifierOptions = {
  store: Store;
  tokenEndpoint: string;
  nonceKey: KeyObject;
  now: () => number;
};

/** `consume` rejects a replayed proof. Call it after all other checks. */
export type VerifiedProof = { thumbprint: string; consume: () => Promise<void> };

/**
 * Verifies the proof of a request for a grant type of our own; the engine checks only those of its grant types. Undefined without a proof.
 * Rejects with `invalid_dpop_proof` or `use_dpop_nonce`.
 */
export function dpopVerifier({ store, tokenEndpoint: url, nonceKey, now }: DpopVerifierOptions) {
  const nonces = dpopNonces(nonceKey);
  return async function verifyProof(ctx: KoaContextWithOIDC): Promise<VerifiedProof | undefined> {
    const { headers, headersDistinct } = ctx.req;
    if (!headers.dpop) return withoutProof(ctx);
    const request = { method: ctx.method, url };
    const proof = await validateProof(headersDistinct.dpop, request, now()).catch(
      (error: unknown) => {
        throw error instanceof InvalidProof ? invalidProof(error.message) : error;
      },
    );
    if (!isRecent(nonces, proof, now())) {
      ctx.set('DPoP-Nonce', nonces.next(now()));
      throw new errors.UseDpopNonce(
        'the DPoP proof has expired or is not valid yet: use the nonce in DPoP-Nonce',
      );
    }
    const consume = async () => {
      if (!(await consumeProof(store, proof))) throw proofReused();
    };
    return { thumbprint: proof.thumbprint, consume };
  };
}
