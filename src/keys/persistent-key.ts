import { createSecretKey, type KeyObject } from 'node:crypto';
import type { OpenedStore } from '../store/open.ts';

/**
 * Returns a key that never changes: derived once and stored encrypted. Every process that uses the store gets the same key, also after the store
 * lost its data and a process that still runs stored the keys of the store again.
 */
export async function persistentKey(
  store: Pick<OpenedStore, 'add' | 'get' | 'keyRing'>,
  purpose: string,
): Promise<KeyObject> {
  // The name of the record predates the name of this function.
  const record = `kept-key:${purpose}`;
  const [key] = store.keyRing(purpose);
  await store.add(record, key.export().toString('base64url'), Infinity);
  const stored = await store.get<string>(record);
  if (!stored) throw new Error(`the key for ${purpose} that was just written is not in the store`);
  return createSecretKey(Buffer.from(stored.value, 'base64url'));
}
