// The caller header: a JWT (RFC 7519) that tells the upstream who calls. Its type makes it invalid as an access token.
import { importJWK, SignJWT } from 'jose';
import { type SigningKey, SIGNING_ALGORITHM } from '../../keys/signing-keys.ts';
import { lruCache } from '../../lru-cache.ts';
import type { Caller } from '../authenticate.ts';

export const CALLER_HEADER = 'gatehouse-caller';
export const CALLER_TYPE = 'gatehouse-caller+jwt';

const LIFETIME_SECONDS = 60;
const REUSE_SECONDS = 30;
const MAX_CACHED = 1000;

export type CallerHeaderOptions = {
  issuer: string;
  /** The upstream's address, exactly as in the settings. */
  audience: string;
  /** The current signing key. */
  signingKey: () => SigningKey;
  /** Seconds since the epoch. */
  now: () => number;
};

/** Reuses a JWT for 30 s, so that it is valid for at least 30 s more. */
export function callerHeader(options: CallerHeaderOptions): (caller: Caller) => Promise<string> {
  const cache = lruCache<Signed>(MAX_CACHED);
  return async function headerOf(caller) {
    const now = options.now();
    const key = options.signingKey();
    const claims = claimsOf(caller);
    const name = JSON.stringify([key.jwk.kid, claims]);
    const known = cache.get(name);
    const signed =
      known && isReusable(known, now)
        ? known
        : { text: await sign(options, key, claims, Math.floor(now)), signedAt: now };
    if (signed !== known) cache.set(name, signed);
    return signed.text;
  };
}

type Signed = { text: string; signedAt: number };

function isReusable({ signedAt }: Signed, now: number): boolean {
  return now - signedAt >= 0 && now - signedAt < REUSE_SECONDS;
}

/** A minted token has no connector, and its account and client are the same. */
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
    .setExpirationTime(issuedAt + LIFETIME_SECONDS)
    .sign(await importJWK(jwk, SIGNING_ALGORITHM));
}
