// Derives every key of the product from the one root secret (HKDF-SHA-256, RFC 5869), each for one purpose only.
import { type KeyObject, createSecretKey, hkdfSync } from 'node:crypto';
import type { RingKey } from './seal.ts';

const KEY_BYTES = 32;

/** 32 bytes that belong to `purpose` and say nothing about the keys of other purposes. Changing the text of a purpose changes its key. */
export function deriveKey(rootSecret: string, purpose: string): Buffer {
  if (!rootSecret) throw new TypeError('the root secret is empty');
  return Buffer.from(hkdfSync('sha256', rootSecret, '', `gatehouse ${purpose}`, KEY_BYTES));
}

/** What `openSealer` takes: the key that names records and the ring that seals them. */
export function deriveKeys(rootSecret: string): { naming: KeyObject; ring: RingKey[] } {
  return {
    naming: createSecretKey(deriveKey(rootSecret, 'store names')),
    ring: [{ id: 1, key: createSecretKey(deriveKey(rootSecret, 'store values')) }],
  };
}
