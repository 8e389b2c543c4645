// The keys of one purpose, derived from the root secret and from the one before: the first makes, all recognise.
import { createSecretKey, type KeyObject } from 'node:crypto';
import { deriveKey } from '../store/key-derivation.ts';

export type RootSecrets = { secret: string; previousSecret?: string | undefined };

/** At least one. */
export type KeyRing = readonly [KeyObject, ...KeyObject[]];

export function keyRing({ secret, previousSecret }: RootSecrets, purpose: string): KeyRing {
  const keyOf = (root: string) => createSecretKey(deriveKey(root, purpose));
  return previousSecret === undefined ? [keyOf(secret)] : [keyOf(secret), keyOf(previousSecret)];
}
