// Replaces `store/encryption.ts` to measure the cost of encryption.
import { randomBytes } from 'node:crypto';
import type { Encryption } from '../../src/store/encryption.ts';

export * from '../../src/store/encryption.ts';

const START = randomBytes(6).toString('hex');
const NONCE_CHARACTERS = 24;
let encrypted = 0;

/** Adds random bytes at the end, because the store's compare-and-set compares the last `TAG_BYTES`. */
export function createEncryption(): Encryption {
  return {
    name: (key) => key,
    field: (_name, member) => member,
    encrypt: (_place, value) => {
      encrypted += 1;
      return Buffer.from(JSON.stringify(value) + START + String(encrypted).padStart(12, '0'));
    },
    decrypt: (_place, bytes) =>
      JSON.parse(bytes.toString('utf8', 0, bytes.length - NONCE_CHARACTERS)),
  };
}
