// JSON Web Key Sets (RFC 7517) of clients that authenticate with a key (RFC 7523): in the settings, in metadata documents, and fetched.
import { isObject } from '../json-values.ts';

/** Signature algorithms of client assertions (RFC 7518, RFC 8037, RFC 9864). */
export const ASSERTION_ALGORITHMS = ['ES256', 'EdDSA', 'Ed25519', 'RS256', 'PS256'] as const;

/** A public signing key, with the members that a verifier reads. */
export type PublicKey = {
  kty: string;
  crv?: string;
  x?: string;
  y?: string;
  n?: string;
  e?: string;
  kid?: string;
  alg?: string;
  use?: string;
  key_ops?: string[];
};

/** The message may be shown to the client and to operators. It never quotes the set. */
export class KeySetRefused extends Error {}

const MAX_KEYS = 50;
/** Members of private keys (RFC 7518 section 6; `priv` in post-quantum keys). */
export const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv'];
const TEXT_MEMBERS = ['kty', 'crv', 'x', 'y', 'n', 'e', 'kid', 'alg', 'use'] as const;
const BASE64URL = /^[\w-]+$/;
/** RSA keys of 2048 to 8192 bits, with an exponent of at most 32 bits: larger ones take long to verify with. */
const MODULUS_CHARACTERS = { min: 342, max: 1366 };
const MAX_EXPONENT_CHARACTERS = 6;

/**
 * Returns the keys of a set that can sign client assertions; others are ignored. Throws KeySetRefused if the value is not a set, has a private
 * or symmetric key (each reader of the set could sign), more than 50 keys, or none that can be used.
 */
export function publicKeys(set: unknown): PublicKey[] {
  const keys = isObject(set) ? set.keys : undefined;
  if (!Array.isArray(keys) || !keys.every(isObject))
    throw new KeySetRefused('the key set is not a JSON object with an array of keys');
  if (keys.length > MAX_KEYS) throw new KeySetRefused(`the key set has more than ${MAX_KEYS} keys`);
  if (keys.some(isSecret))
    throw new KeySetRefused('the key set has a private or symmetric key: publish only public keys');
  const usable = keys.filter(isUsable).map(essential);
  if (usable.length === 0)
    throw new KeySetRefused(
      'the key set has no signature key for ES256 (P-256), EdDSA (Ed25519), RS256 or PS256 (RSA, 2048 bits or more)',
    );
  return usable;
}

export function isPublicKeySet(set: unknown): boolean {
  try {
    return publicKeys(set).length > 0;
  } catch {
    return false;
  }
}

/** A host name with a dot, no port, no user, no fragment. */
const KEY_SET_ADDRESS = /^https:\/\/([a-z0-9-]+\.)+[a-z][a-z0-9-]*\/[^\s#@\\]*$/;
const MAX_ADDRESS_LENGTH = 500;

/** Whether the keys of a client may be fetched from there. The addresses of the host are checked at each fetch. */
export function isKeySetAddress(url: unknown): url is string {
  return typeof url === 'string' && url.length <= MAX_ADDRESS_LENGTH && KEY_SET_ADDRESS.test(url);
}

/** Whether a key can have made a signature with this protected header (RFC 7515 section 6). `kid` is a hint: a key without one fits any. */
export function fits(key: PublicKey, { alg, kid }: { alg?: unknown; kid?: unknown }): boolean {
  if (kid !== undefined && key.kid !== undefined && key.kid !== kid) return false;
  if (key.alg !== undefined && key.alg !== alg) return false;
  if (alg === 'ES256') return key.kty === 'EC';
  if (alg === 'EdDSA' || alg === 'Ed25519') return key.kty === 'OKP';
  return key.kty === 'RSA';
}

function isSecret(key: Record<string, unknown>): boolean {
  return key.kty === 'oct' || PRIVATE_MEMBERS.some((member) => key[member] !== undefined);
}

function isUsable(key: Record<string, unknown>): boolean {
  const { kty, crv, x, y, n, e, kid, alg, use, key_ops: operations } = key;
  if (use !== undefined && use !== 'sig') return false;
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify')))
    return false;
  if (![kid, alg].every((text) => text === undefined || (typeof text === 'string' && text !== '')))
    return false;
  const [isX, isY, isN, isE] = [x, y, n, e].map(
    (member) => typeof member === 'string' && BASE64URL.test(member),
  );
  if (kty === 'EC') return crv === 'P-256' && isX === true && isY === true;
  if (kty === 'OKP') return crv === 'Ed25519' && isX === true;
  if (kty !== 'RSA' || !isN || !isE) return false;
  const { length } = String(n);
  const isSized = length >= MODULUS_CHARACTERS.min && length <= MODULUS_CHARACTERS.max;
  return isSized && String(e).length <= MAX_EXPONENT_CHARACTERS;
}

function essential(key: Record<string, unknown>): PublicKey {
  const members = TEXT_MEMBERS.map((name) => [name, key[name]] as const);
  return {
    ...Object.fromEntries(members.filter(([, value]) => typeof value === 'string')),
    ...(Array.isArray(key.key_ops) ? { key_ops: key.key_ops.map(String) } : {}),
  } as PublicKey;
}
