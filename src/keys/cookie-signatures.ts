// Signatures of cookies, for the library that writes and reads cookies: made with the first key of a ring, recognised by each.
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { KeyRing } from './key-ring.ts';

export type CookieSignatures = {
  sign(text: string): string;
  /** Of the key that made the signature, in the ring; -1 when none did. */
  index(text: string, signature: string): number;
  verify(text: string, signature: string): boolean;
};

/**
 * What the library makes of keys it is given takes three MACs and random bytes to compare two signatures, some fifty times while somebody
 * connects. These are the same signatures, so that a process which leaves them to the library knows them.
 */
export function cookieSignatures([first, ...others]: KeyRing): CookieSignatures {
  const newest = libraryKey(first);
  const keys = [newest, ...others.map(libraryKey)];
  const index = (text: string, signature: string) => {
    const presented = Buffer.from(signature);
    return keys.findIndex((key) => isEqual(presented, Buffer.from(macOf(key, text))));
  };
  return {
    index,
    sign: (text) => macOf(newest, text),
    verify: (text, signature) => index(text, signature) >= 0,
  };
}

function isEqual(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}

/** It takes keys as text. */
function libraryKey(key: KeyObject): KeyObject {
  return createSecretKey(Buffer.from(key.export().toString('base64url')));
}

/** That two texts with one SHA-1 digest can be found does not weaken this MAC (RFC 6194 section 3.3). */
function macOf(key: KeyObject, text: string): string {
  return createHmac('sha1', key).update(text).digest('base64url');
}
