// The keys of one purpose, derived from the root secret and from the one before: the first makes, all recognise.
import { createSecretKey, type KeyObject } from 'node:crypto';
import { deriveKey } from '../store/keys.ts';

export type RootSecrets = { secret: string; previousSecret?: string | undefined };

/** At least one. */
export type KeyRing = readonly [KeyObject, ...KeyObject[]];

export function keyRing(secrets: RootSecrets, purpose: string): KeyRing {
  const [first, ...previous] = derivedKeys(secrets, purpose);
  return [createSecretKey(first), ...previous.map((key) => createSecretKey(key))];
}

/** For cookies, whose library takes text (its signatures are made with the first and checked with all). */
export function textKeyRing(secrets: RootSecrets, purpose: string): string[] {
  return derivedKeys(secrets, purpose).map((key) => key.toString('base64url'));
}

function derivedKeys(
  { secret, previousSecret }: RootSecrets,
  purpose: string,
): [Buffer, ...Buffer[]] {
  const previous = previousSecret === undefined ? [] : [deriveKey(previousSecret, purpose)];
  return [deriveKey(secret, purpose), ...previous];
}
