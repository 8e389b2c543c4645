// The public keys of a trusted issuer (RFC 7517): from the settings, or fetched and cached for ten minutes.
import {
  compactVerify,
  createLocalJWKSet,
  createRemoteJWKSet,
  customFetch,
  type JSONWebKeySet,
  type JWTVerifyGetKey,
} from 'jose';
import { isKeySetError } from '../../keys/remote-keys.ts';
import type { TrustedIssuer } from '../../settings/identity-provider-schema.ts';
import { fetchFromProvider } from './provider-fetch.ts';
import { temporarilyUnavailable } from './errors.ts';

/** Limits the fetches that made-up key ids cause. */
const COOLDOWN_MS = 10_000;
const TIMEOUT_MS = 5000;

/** True if the issuer signed the assertion. Rejects with `temporarily_unavailable` if its keys cannot be fetched. */
export type SignatureCheck = (assertion: string) => Promise<boolean>;

export function signatureCheck(
  { jwksUri, jwks }: TrustedIssuer,
  algorithms: string[],
): SignatureCheck {
  const keys: JWTVerifyGetKey = jwksUri
    ? createRemoteJWKSet(new URL(jwksUri), {
        timeoutDuration: TIMEOUT_MS,
        cooldownDuration: COOLDOWN_MS,
        [customFetch]: fetchFromProvider,
      })
    : createLocalJWKSet(jwks as JSONWebKeySet);
  return async function isSignedByIssuer(assertion) {
    try {
      await compactVerify(assertion, keys, { algorithms });
      return true;
    } catch (error) {
      if (isKeySetError(error)) throw temporarilyUnavailable(error);
      return false;
    }
  };
}
