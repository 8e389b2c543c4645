// Tokens of any content, signed by the very key that Gatehouse itself signs with.
import { decodeJwt, decodeProtectedHeader, importJWK, type JWTPayload, SignJWT } from 'jose';
import { loadSigningKeys, signingKey } from '../../src/keys/signing-keys.ts';
import { openSystemStore } from './system-store.ts';
import type { System } from './system.ts';

type Claims = { [name: string]: unknown };

/** As `token`, with other claims and another header; undefined leaves a member out. */
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
