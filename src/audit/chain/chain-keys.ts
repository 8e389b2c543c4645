// The key that signs checkpoints and nothing else, and the id of the log. Both are in the store, so that every process has the same ones, and stay
// there longer than any item.
import { randomBytes } from 'node:crypto';
import type { JWK } from 'jose';
import { createSigningKey, publicJwks, type SigningKey } from '../../keys/signing-keys.ts';
import type { Store } from '../../store/store.ts';

const KEY = 'audit-chain:all';

/** The first key signs. Earlier ones stay, to verify what they signed. */
export type ChainKeys = { log: string; keys: readonly SigningKey[] };

export async function loadChainKeys(store: Store, now: number): Promise<ChainKeys> {
  const found = await store.get<ChainKeys>(KEY);
  if (found) return found.value;
  const keys = [{ jwk: await createSigningKey(), signsFrom: now }];
  const log = randomBytes(15).toString('base64url');
  await store.add(KEY, { log, keys }, Infinity);
  const added = await store.get<ChainKeys>(KEY);
  if (!added)
    throw new Error('the keys of the audit log that were just written are not in the store');
  return added.value;
}

/** Without creating any. */
export async function publicChainKeys(store: Store, now: number): Promise<{ keys: JWK[] }> {
  const found = await store.get<ChainKeys>(KEY);
  return found ? publicJwks(found.value.keys, now) : { keys: [] };
}
