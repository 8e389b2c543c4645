// The public keys of an identity provider that vouches for people (RFC 7517): from the settings, or fetched and kept for ten minutes.
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
import { temporarilyUnavailable } from './refusals.ts';

/** Milliseconds. A key that is not known is asked for again this often at most, whoever makes up key ids. */
const BETWEEN_UNKNOWN_KEYS = 10_000;
const LONGEST_READ = 5000;

/** True when the assertion is signed by the issuer. Throws `temporarily_unavailable` when its keys cannot be had. */
export type SignatureCheck = (assertion: string) => Promise<boolean>;

export function signatureCheck(
  { jwksUri, jwks }: TrustedIssuer,
  algorithms: string[],
): SignatureCheck {
  const keys: JWTVerifyGetKey = jwksUri
    ? createRemoteJWKSet(new URL(jwksUri), {
        timeoutDuration: LONGEST_READ,
        cooldownDuration: BETWEEN_UNKNOWN_KEYS,
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
