// Verifies JWT access tokens (RFC 9068 section 4). Valid tokens are cached until they expire or their key is no longer published.
import { hash } from 'node:crypto';
import { errors, type JWTHeaderParameters, type JWTPayload, type JWTVerifyGetKey } from 'jose';
import { jwtVerify } from 'jose';
import { LRUCache } from 'lru-cache';
import { unavailable } from '../http/errors.ts';
import { isKeySetError } from '../keys/remote-keys.ts';

/** Why a token is invalid. Tokens that we did not sign are always `unknown`. */
export type TokenFault = 'unknown' | 'expired' | 'wrong-audience';

export type VerifyToken = (token: string, audience: string) => Promise<JWTPayload | TokenFault>;

export type VerifyOptions = {
  issuer: string;
  verificationKeys: JWTVerifyGetKey;
  /** Seconds since the epoch. */
  now: () => number;
};

type Key = Awaited<ReturnType<JWTVerifyGetKey>>;
type Verified = { claims: JWTPayload; header: JWTHeaderParameters; key: Key };

/** About 1 kB each. */
const MAX_CACHED_TOKENS = 10_000;

/** Verification rejects with 503 if the keys cannot be fetched. */
export function tokenVerifier(options: VerifyOptions): VerifyToken {
  const cached = new LRUCache<string, Verified>({ max: MAX_CACHED_TOKENS });
  return async function verifyToken(token, audience) {
    const digest = hash('sha256', token, 'base64');
    try {
      const found = cached.get(digest);
      const verified =
        found && (await isStillValid(options, found)) ? found : await verify(options, token);
      if (verified !== found) cached.set(digest, verified);
      return verified.claims.aud === audience ? verified.claims : 'wrong-audience';
    } catch (error) {
      cached.delete(digest);
      return faultOf(error);
    }
  };
}

async function verify(
  { issuer, verificationKeys, now }: VerifyOptions,
  token: string,
): Promise<Verified> {
  const { payload, protectedHeader, key } = await jwtVerify(token, verificationKeys, {
    issuer,
    typ: 'at+jwt',
    algorithms: ['ES256'],
    requiredClaims: ['aud', 'exp', 'iat', 'jti', 'sub'],
    currentDate: new Date(now() * 1000),
  });
  return { claims: payload, header: protectedHeader, key };
}

/** Compares key objects: a removed key is not found, and a new key with the same id is another object. */
async function isStillValid(
  { verificationKeys, now }: VerifyOptions,
  { claims, header, key }: Verified,
): Promise<boolean> {
  if ((claims.exp ?? 0) <= Math.floor(now())) return false;
  return (await verificationKeys(header, EMPTY_JWS)) === key;
}

/** Key sets read the header only. */
const EMPTY_JWS = { payload: '', signature: '' };

/** Throws 503 if the keys of a remote authorization server cannot be fetched. */
function faultOf(error: unknown): TokenFault {
  // jose checks the signature, issuer and type before the expiry.
  if (error instanceof errors.JWTExpired) return 'expired';
  if (isKeySetError(error)) throw unavailable(error);
  return 'unknown';
}
