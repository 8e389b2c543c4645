import { type KeyObject, createCipheriv, createDecipheriv, createHmac } from 'node:crypto';
import { lruCache } from '../lru-cache.ts';
import { pooledRandom } from '../pooled-random.ts';

const ALGORITHM = 'aes-256-gcm';
const VERSION = 1;
const HEADER_BYTES = 2;
const NONCE_BYTES = 12;
/** At the end of what `encrypt` returns. */
export const TAG_BYTES = 16;
/** More than a list of a thousand records has. */
const MAX_CACHED_NAMES = 4000;

/** `id` is one byte, stored in every encrypted value, and need not be unique. A KeyObject, because Node converts a Buffer on every call. */
export type RingKey = { id: number; key: KeyObject };

export interface Encryption {
  /** Returns the record name for a key `<kind>:<id>`, with the id replaced by its HMAC. Throws a TypeError if the key has no kind. */
  name(key: string): string;
  /** Returns the HMAC of a member of the set `name`. It differs from set to set. */
  field(name: string, member: string): string;
  /**
   * Returns version, key id, nonce, ciphertext and tag, bound to `place` as additional data. Two calls never return the same bytes, which
   * compare-and-swap relies on.
   */
  encrypt(place: string, value: unknown): Buffer;
  /** Returns undefined for bytes that were not encrypted for this place with a key of the ring. */
  decrypt<T>(place: string, encrypted: Buffer): T | undefined;
}

export type EncryptionKeys = { nameKey: KeyObject; ring: readonly RingKey[] };

/** The first key of the ring encrypts, every key decrypts. The ring may change later. Another `nameKey` would lose every record. */
export function createEncryption(
  { nameKey, ring }: EncryptionKeys,
  random = pooledRandom(),
): Encryption {
  const active = () => {
    const [first] = ring;
    if (!first) throw new TypeError('the key ring is empty');
    return first;
  };
  active();
  const hide = (text: string) => createHmac('sha256', nameKey).update(text).digest('base64url');
  // A record is usually read and then written, so its name is needed twice.
  const names = lruCache<string>(MAX_CACHED_NAMES);

  return {
    name(key) {
      const known = names.get(key);
      if (known !== undefined) return known;
      const name = `${kindOf(key)}:${hide(key)}`;
      names.set(key, name);
      return name;
    },
    field: (name, member) => hide(`${name}\n${member}`),
    encrypt: (place, value) =>
      encryptWith(active(), place, JSON.stringify(value), random(NONCE_BYTES)),
    decrypt(place, encrypted) {
      const text = decryptWithAny(ring, place, encrypted);
      return text === undefined ? undefined : JSON.parse(text);
    },
  };
}

/** Keys are `<kind>:<id>`. */
export function kindOf(key: string): string {
  const colon = key.indexOf(':');
  if (colon < 1) throw new TypeError('a store key must be <kind>:<id>');
  return key.slice(0, colon);
}

function encryptWith({ id, key }: RingKey, place: string, text: string, nonce: Buffer): Buffer {
  const cipher = createCipheriv(ALGORITHM, key, nonce).setAAD(bytesOf(place));
  const body = cipher.update(text, 'utf8');
  // GCM has nothing left to encrypt, but the tag is not known before.
  cipher.final();
  const encrypted = Buffer.allocUnsafe(HEADER_BYTES + NONCE_BYTES + body.length + TAG_BYTES);
  encrypted[0] = VERSION;
  encrypted[1] = id;
  encrypted.set(nonce, HEADER_BYTES);
  encrypted.set(body, HEADER_BYTES + NONCE_BYTES);
  encrypted.set(cipher.getAuthTag(), encrypted.length - TAG_BYTES);
  return encrypted;
}

let lastPlace = { place: '', bytes: Buffer.alloc(0) };

/** Entries of a log are encrypted one after another for the same place. */
function bytesOf(place: string): Buffer {
  if (lastPlace.place !== place) lastPlace = { place, bytes: Buffer.from(place) };
  return lastPlace.bytes;
}

function decryptWithAny(
  ring: readonly RingKey[],
  place: string,
  encrypted: Buffer,
): string | undefined {
  const [version, id] = encrypted;
  if (version !== VERSION || encrypted.length < HEADER_BYTES + NONCE_BYTES + TAG_BYTES)
    return undefined;
  for (const candidate of ring) {
    if (candidate.id !== id) continue;
    const text = decryptWith(candidate.key, place, encrypted);
    if (text !== undefined) return text;
  }
  return undefined;
}

function decryptWith(key: KeyObject, place: string, encrypted: Buffer): string | undefined {
  const nonce = encrypted.subarray(HEADER_BYTES, HEADER_BYTES + NONCE_BYTES);
  const decipher = createDecipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES })
    .setAAD(bytesOf(place))
    .setAuthTag(encrypted.subarray(-TAG_BYTES));
  const body = decipher.update(encrypted.subarray(HEADER_BYTES + NONCE_BYTES, -TAG_BYTES));
  try {
    // GCM has nothing left to decrypt, but only now it is known whether the tag is right.
    decipher.final();
  } catch {
    return undefined;
  }
  return body.toString();
}
