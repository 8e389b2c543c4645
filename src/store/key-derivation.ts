import { type KeyObject, createSecretKey, hkdfSync } from 'node:crypto';
import type { EncryptionKeys, RingKey } from './encryption.ts';

const KEY_BYTES = 32;

/** Root secrets. Values encrypted with the previous one can still be decrypted. */
export type RootSecrets = { secret: string; previousSecret?: string | undefined };

/** Derives a 32-byte key for one purpose with HKDF-SHA-256 (RFC 5869). Keys of different purposes are independent. */
export function deriveKey(rootSecret: string, purpose: string): Buffer {
  if (!rootSecret) throw new TypeError('the root secret is empty');
  return Buffer.from(hkdfSync('sha256', rootSecret, '', `gatehouse ${purpose}`, KEY_BYTES));
}

/** Derives the encryption keys of a store that is opened with these secrets for the first time. */
export function deriveStoreKeys({ secret, previousSecret }: RootSecrets): EncryptionKeys {
  const secrets = previousSecret === undefined ? [secret] : [secret, previousSecret];
  return { nameKey: deriveNameKey(secret), ring: secrets.map(deriveRingKey) };
}

function deriveNameKey(secret: string): KeyObject {
  return createSecretKey(deriveKey(secret, 'store names'));
}

/** The id is derived separately, so that it reveals nothing about the key. Two secrets may have the same id. */
function deriveRingKey(secret: string): RingKey {
  const [id = 0] = deriveKey(secret, 'store value key id');
  return { id, key: createSecretKey(deriveKey(secret, 'store values')) };
}
