// Signs tokens of any content with the current signing key of a system.
import { decodeJwt, decodeProtectedHeader, importJWK, type JWTPayload, SignJWT } from 'jose';
import { loadSigningKeys, signingKey } from '../../src/keys/signing-keys.ts';
import { openSystemStore } from './system-store.ts';
import type { System } from './system.ts';

type Claims = { [name: string]: unknown };

/** Signs `token` again with other claims and headers; undefined removes a member. */
export async function resignToken(
  system: System,
  token: string,
  claims: Claims,
  header: Claims = {},
): Promise<string> {
  const now = Date.now() / 1000;
  const { store } = await openSystemStore(system);
  const { jwk } = signingKey(await loadSigningKeys(store, now), now);
  await store.close();
  const payload = { ...decodeJwt(token), ...claims } as JWTPayload;
  return new SignJWT(payload)
    .setProtectedHeader({ ...decodeProtectedHeader(token), alg: 'ES256', kid: jwk.kid, ...header })
    .sign(await importJWK(jwk, 'ES256'));
}
