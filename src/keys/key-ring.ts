import { createSecretKey } from 'node:crypto';
import { deriveKey, type RootSecrets } from '../store/key-derivation.ts';
import type { KeyRing } from '../store/stored-keys.ts';

/** Derived from the current and the previous root secret, for what is signed and verified within moments by programs that do not open the store. */
export function keyRing({ secret, previousSecret }: RootSecrets, purpose: string): KeyRing {
  const keyOf = (root: string) => createSecretKey(deriveKey(root, purpose));
  return previousSecret === undefined ? [keyOf(secret)] : [keyOf(secret), keyOf(previousSecret)];
}
