// Signatures of cookies, for the library that writes and reads cookies: made with the first key of a ring, recognised by each.
import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { KeyRing } from './key-ring.ts';

export type CookieSignatures = {
  sign(text: string): string;
  /** Of the key that made the signature, in the ring; -1 when none did. */
  index(text: string, signature: string): number;
  verify(text: string, signature: string): boolean;
};

/** What the library makes of keys it is given takes three MACs and random bytes to compare two signatures, some fifty times while somebody connects. */
export function cookieSignatures(keys: KeyRing): CookieSignatures {
  const index = (text: string, signature: string) => {
    const presented = Buffer.from(signature);
    return keys.findIndex((key) => isEqual(presented, Buffer.from(macOf(key, text))));
  };
  return {
    index,
    sign: (text) => macOf(keys[0], text),
    verify: (text, signature) => index(text, signature) >= 0,
  };
}

function isEqual(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}

function macOf(key: KeyObject, text: string): string {
  return createHmac('sha256', key).update(text).digest('base64url');
}
