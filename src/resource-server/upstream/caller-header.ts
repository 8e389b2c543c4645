// What the upstream is told about who calls: a JWT (RFC 7519) of a kind of its own, which is never good as an access token.
import { importJWK, SignJWT } from 'jose';
import { LRUCache } from 'lru-cache';
import { type SigningKey, SIGNING_ALGORITHM } from '../../keys/signing-keys.ts';
import type { Caller } from '../level.ts';

export const CALLER_HEADER = 'gatehouse-caller';
export const CALLER_TYPE = 'gatehouse-caller+jwt';

/** Seconds. */
const LIFETIME = 60;
const USED_FOR = 30;
const MOST_KEPT = 1000;

export type CallerHeaderOptions = {
  issuer: string;
  /** The upstream's address, as it stands in the settings. */
  audience: string;
  /** The key that signs now. */
  signingKey: () => SigningKey;
  /** Seconds since the epoch. */
  now: () => number;
};

/** Signs once for a caller and half a minute, so that whoever gets it has half a minute left. */
export function callerHeader(options: CallerHeaderOptions): (caller: Caller) => Promise<string> {
  const kept = new LRUCache<string, { text: string; signedAt: number }>({ max: MOST_KEPT });
  return async function headerOf(caller) {
    const now = options.now();
    const key = options.signingKey();
    const claims = claimsOf(caller);
    const name = JSON.stringify([key.jwk.kid, claims]);
    const known = kept.get(name);
    if (known && now - known.signedAt >= 0 && now - known.signedAt < USED_FOR) return known.text;
    const text = await sign(options, key, claims, Math.floor(now));
    kept.set(name, { text, signedAt: now });
    return text;
  };
}

/** A minted token has no connector, and goes by one name as account and as client. */
function claimsOf({ accountId, clientId, connector, level }: Caller): Record<string, string> {
  return {
    sub: accountId,
    client_id: clientId,
    ...(connector === undefined ? {} : { connector }),
    level,
  };
}

async function sign(
  { issuer, audience }: CallerHeaderOptions,
  { jwk }: SigningKey,
  claims: Record<string, string>,
  issuedAt: number,
): Promise<string> {
  return new SignJWT(claims)
    .setProtectedHeader({ alg: SIGNING_ALGORITHM, typ: CALLER_TYPE, kid: jwk.kid })
    .setIssuer(issuer)
    .setAudience(audience)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + LIFETIME)
    .sign(await importJWK(jwk, SIGNING_ALGORITHM));
}
