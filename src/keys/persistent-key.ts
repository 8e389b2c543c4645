import { createSecretKey, type KeyObject } from 'node:crypto';
import { deriveKey } from '../store/key-derivation.ts';
import type { Store } from '../store/store.ts';

/**
 * Returns a key that survives root secret rotation: derived once and stored encrypted. Every process that uses the store gets the same key,
 * also after the store lost its data and the secret is still the same.
 */
export async function persistentKey(
  store: Store,
  secret: string,
  purpose: string,
): Promise<KeyObject> {
  // The name of the record predates the name of this function.
  const record = `kept-key:${purpose}`;
  await store.add(record, deriveKey(secret, purpose).toString('base64url'), Infinity);
  const stored = await store.get<string>(record);
  if (!stored) throw new Error(`the key for ${purpose} that was just written is not in the store`);
  return createSecretKey(Buffer.from(stored.value, 'base64url'));
}
