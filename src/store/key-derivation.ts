import { hkdfSync } from 'node:crypto';

const KEY_BYTES = 32;

/** Root secrets. One of them opens the store. */
export type RootSecrets = { secret: string; previousSecret?: string | undefined };

/** Derives a 32-byte key for one purpose with HKDF-SHA-256 (RFC 5869). Keys of different purposes are independent. */
export function deriveKey(rootSecret: string, purpose: string): Buffer {
  if (!rootSecret) throw new TypeError('the root secret is empty');
  return Buffer.from(hkdfSync('sha256', rootSecret, '', `gatehouse ${purpose}`, KEY_BYTES));
}
