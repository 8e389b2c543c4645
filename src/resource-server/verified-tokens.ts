// Checks the signature and claims of access tokens (RFC 9068 section 4), each once: a token that was good stays so until it expires or its key goes.
import { hash } from 'node:crypto';
import { errors, type JWTHeaderParameters, type JWTPayload, type JWTVerifyGetKey } from 'jose';
import { jwtVerify } from 'jose';
import { LRUCache } from 'lru-cache';
import { unavailable } from '../http/errors.ts';
import { isKeySetError } from '../keys/remote-keys.ts';

/** Why a token is not good. Of one that we did not sign only this is said: `unknown`. */
export type BadToken = 'unknown' | 'expired' | 'elsewhere';

export type VerifyToken = (token: string, audience: string) => Promise<JWTPayload | BadToken>;

export type VerifyOptions = {
  issuer: string;
  verificationKeys: JWTVerifyGetKey;
  /** Seconds since the epoch. */
  now: () => number;
};

type Key = Awaited<ReturnType<JWTVerifyGetKey>>;
type Verified = { claims: JWTPayload; header: JWTHeaderParameters; key: Key };

/** About a kilobyte each. */
const MOST_REMEMBERED = 10_000;

/** `elsewhere`: for another address than `audience`. Rejects with 503 when the keys cannot be had. */
export function tokenVerifier(options: VerifyOptions): VerifyToken {
  const remembered = new LRUCache<string, Verified>({ max: MOST_REMEMBERED });
  return async function verifyToken(token, audience) {
    const digest = hash('sha256', token, 'base64');
    try {
      const known = remembered.get(digest);
      const verified =
        known && (await isStillGood(options, known)) ? known : await verify(options, token);
      if (verified !== known) remembered.set(digest, verified);
      return verified.claims.aud === audience ? verified.claims : 'elsewhere';
    } catch (error) {
      remembered.delete(digest);
      return badToken(error);
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

/** A key that is no longer published is not found, and other keys under its id are other objects. */
async function isStillGood(
  { verificationKeys, now }: VerifyOptions,
  { claims, header, key }: Verified,
): Promise<boolean> {
  if ((claims.exp ?? 0) <= Math.floor(now())) return false;
  return (await verificationKeys(header, NOTHING_SIGNED)) === key;
}

/** Key sets look at the header only. */
const NOTHING_SIGNED = { payload: '', signature: '' };

/** What is not about the token is about the keys, which a remote authorization server may fail to deliver. */
function badToken(error: unknown): BadToken {
  // Signature, issuer and type are checked before the time is.
  if (error instanceof errors.JWTExpired) return 'expired';
  if (isKeySetError(error)) throw unavailable(error);
  return 'unknown';
}
