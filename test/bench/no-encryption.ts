// Replaces `store/seal.ts` to measure what encryption costs: the same interface without encryption.
import { randomBytes } from 'node:crypto';
import type { Sealer } from '../../src/store/seal.ts';

const START = randomBytes(6).toString('hex');
const NONCE_CHARACTERS = 24;
let sealed = 0;

/** Two calls never give the same bytes, which the store's compare-and-set relies on. */
export function openSealer(): Sealer {
  return {
    name: (key) => key,
    field: (_name, member) => member,
    seal: (_place, value) => {
      sealed += 1;
      return Buffer.from(START + String(sealed).padStart(12, '0') + JSON.stringify(value));
    },
    open: (_place, bytes) => JSON.parse(bytes.toString('utf8', NONCE_CHARACTERS)),
  };
}
