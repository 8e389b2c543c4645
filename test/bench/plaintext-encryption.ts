// Replaces `store/encryption.ts` to measure the cost of encryption.
import { randomBytes } from 'node:crypto';
import type { Encryption } from '../../src/store/encryption.ts';

const START = randomBytes(6).toString('hex');
const NONCE_CHARACTERS = 24;
let encrypted = 0;

/** Adds random bytes, because the store's compare-and-set requires that two calls never return the same bytes. */
export function createEncryption(): Encryption {
  return {
    name: (key) => key,
    field: (_name, member) => member,
    encrypt: (_place, value) => {
      encrypted += 1;
      return Buffer.from(START + String(encrypted).padStart(12, '0') + JSON.stringify(value));
    },
    decrypt: (_place, bytes) => JSON.parse(bytes.toString('utf8', NONCE_CHARACTERS)),
  };
}
