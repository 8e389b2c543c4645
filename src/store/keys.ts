// Derives every key of the product from the one root secret (HKDF-SHA-256, RFC 5869), each for one purpose only.
import { type KeyObject, createSecretKey, hkdfSync } from 'node:crypto';
import type { RingKey } from './encryption.ts';

const KEY_BYTES = 32;

/** 32 bytes that belong to `purpose` and say nothing about the keys of other purposes. Changing the text of a purpose changes its key. */
export function deriveKey(rootSecret: string, purpose: string): Buffer {
  if (!rootSecret) throw new TypeError('the root secret is empty');
  return Buffer.from(hkdfSync('sha256', rootSecret, '', `gatehouse ${purpose}`, KEY_BYTES));
}

/** What `createEncryption` takes. `previousSecret`: values that were encrypted with it can still be opened. */
export function deriveStoreKeys(
  secret: string,
  previousSecret?: string,
): { naming: KeyObject; ring: RingKey[] } {
  const secrets = previousSecret === undefined ? [secret] : [secret, previousSecret];
  return { naming: namingKey(secret), ring: secrets.map(ringKey) };
}

/** The naming key of a store that was first opened with this secret. */
function namingKey(secret: string): KeyObject {
  return createSecretKey(deriveKey(secret, 'store names'));
}

/** The id tells keys apart without saying anything about them; two secrets may share one. */
function ringKey(secret: string): RingKey {
  const [id = 0] = deriveKey(secret, 'store value key id');
  return { id, key: createSecretKey(deriveKey(secret, 'store values')) };
}
