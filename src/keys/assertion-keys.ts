// What JWTs of other systems are signed with.
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';

/** Public-key signatures only: issuers share no secret with us. */
export const SIGNATURE_ALGORITHMS: readonly string[] =
  'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519'.split(' ');

/** `kid` is a hint (RFC 7515 section 4.1.4): a key without one fits any. */
export function localKeys({ keys }: JSONWebKeySet): JWTVerifyGetKey {
  const all = createLocalJWKSet({ keys });
  const unnamed = createLocalJWKSet({ keys: keys.filter(({ kid }) => kid === undefined) });
  return (header, assertion) =>
    all(header, assertion).catch((error: unknown) => {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      const { kid: _, ...rest } = header ?? {};
      return unnamed(rest, assertion);
    });
}
