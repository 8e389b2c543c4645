// The keys that sign access tokens (RFC 9068): made at first start, kept sealed in the store, published without their private part.
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from 'jose';
import type { Store } from '../../store/store.ts';

export const SIGNING_ALGORITHM = 'ES256';
const KEYS = 'signing-keys:access-token';

/** Newest first; the first one signs. Every process that starts with the same store gets the same keys. */
export async function openSigningKeys(store: Store): Promise<JWK[]> {
  const stored = await store.get<JWK[]>(KEYS);
  if (stored) return stored.value;
  await store.add(KEYS, [await createSigningKey()], Infinity);
  const added = await store.get<JWK[]>(KEYS);
  if (!added) throw new Error('the signing keys that were just written are not in the store');
  return added.value;
}

async function createSigningKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair(SIGNING_ALGORITHM, { extractable: true });
  const jwk = await exportJWK(privateKey);
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: SIGNING_ALGORITHM, use: 'sig' };
}

export function publicKeys(keys: readonly JWK[]): { keys: JWK[] } {
  return {
    keys: keys.map(({ kty, crv, x, y, kid, alg, use }) => ({ kty, crv, x, y, kid, alg, use })),
  };
}
