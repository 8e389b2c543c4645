// Keys that must never change, whatever happens to the root secret: derived once and kept encrypted in the store.
import { createSecretKey, type KeyObject } from 'node:crypto';
import { deriveKey } from '../store/key-derivation.ts';
import type { Store } from '../store/store.ts';

/** The same for every process that uses the store, and again after the store lost its data. */
export async function persistentKey(store: Store, secret: string, purpose: string): Promise<KeyObject> {
  const name = `kept-key:${purpose}`;
  await store.add(name, deriveKey(secret, purpose).toString('base64url'), Infinity);
  const stored = await store.get<string>(name);
  if (!stored) throw new Error(`the key for ${purpose} that was just written is not in the store`);
  return createSecretKey(Buffer.from(stored.value, 'base64url'));
}
