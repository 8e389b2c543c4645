// Keys that must never change, whatever happens to the root secret: made once and kept sealed in the store.
import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import type { Store } from '../store/store.ts';

/** The same for every process that uses the store. */
export async function keptKey(store: Store, purpose: string): Promise<KeyObject> {
  const name = `kept-key:${purpose}`;
  await store.add(name, randomBytes(32).toString('base64url'), Infinity);
  const stored = await store.get<string>(name);
  if (!stored) throw new Error(`the key for ${purpose} that was just written is not in the store`);
  return createSecretKey(Buffer.from(stored.value, 'base64url'));
}
