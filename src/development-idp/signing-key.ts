// The key that signs ID tokens: made once, kept in the store, so that they verify after a restart (RFC 7517).
import { type JWK, calculateJwkThumbprint, exportJWK, generateKeyPair } from 'jose';
import type { Store } from '../store/store.ts';

const KEY = 'development-signing-key:current';
const ALGORITHM = 'RS256';

/** The private key. Of processes that start at once, all use the key of the one that was first. */
export async function requireSigningKey(store: Store): Promise<JWK> {
  const found = await store.get<JWK>(KEY);
  if (found) return found.value;
  const made = await makeSigningKey();
  if (await store.add(KEY, made, Infinity)) return made;
  const first = await store.get<JWK>(KEY);
  if (!first) throw new Error('the signing key of the development identity provider disappeared');
  return first.value;
}

/** RS256, the one algorithm that every OpenID Connect client knows. */
async function makeSigningKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
  const jwk = await exportJWK(privateKey);
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: ALGORITHM, use: 'sig' };
}
