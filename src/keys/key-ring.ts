import { createSecretKey, type KeyObject } from 'node:crypto';
import { deriveKey, type RootSecrets } from '../store/key-derivation.ts';

/** Derived from the current and the previous root secret. The first key signs, every key verifies. */
export type KeyRing = readonly [KeyObject, ...KeyObject[]];

export function keyRing({ secret, previousSecret }: RootSecrets, purpose: string): KeyRing {
  const keyOf = (root: string) => createSecretKey(deriveKey(root, purpose));
  return previousSecret === undefined ? [keyOf(secret)] : [keyOf(secret), keyOf(previousSecret)];
}
