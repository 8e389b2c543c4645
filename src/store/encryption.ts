// Encrypts what is stored (AES-256-GCM, key ring, bound to its place) and hides ids in key names (HMAC-SHA-256).
import {
  type KeyObject,
  createCipheriv,
  createDecipheriv,
  createHmac,
  randomBytes,
} from 'node:crypto';
import { LRUCache } from 'lru-cache';

const ALGORITHM = 'aes-256-gcm';
const VERSION = 1;
const HEADER_BYTES = 2;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const POOL_BYTES = 4096;
const NAMES_KEPT = 1000;

/** `id` is one byte and stands in every value it encrypted; it is a hint, not a name. A KeyObject, because Node turns a Buffer into one on every call. */
export type RingKey = { id: number; key: KeyObject };

export interface Encryption {
  /** `<kind>:<id>` with the id hidden; throws a TypeError when there is no kind. */
  name(key: string): string;
  /** The hidden form of a member of the set called `name`; the same member looks different in another set. */
  field(name: string, member: string): string;
  /** Version, key id, nonce, ciphertext, tag. Two calls never give the same bytes, which the store's compare-and-set relies on. */
  encrypt(place: string, value: unknown): Buffer;
  /** Undefined for all that was not encrypted for this place with a key of the ring. */
  decrypt<T>(place: string, encrypted: Buffer): T | undefined;
}

export type EncryptionKeys = { naming: KeyObject; ring: RingKey[] };

/** The first key of the ring encrypts, every key of it opens. The naming key cannot change: that would lose every record. */
export function createEncryption(
  { naming, ring }: EncryptionKeys,
  random = pooledRandom(),
): Encryption {
  const [active] = ring;
  if (!active) throw new TypeError('the key ring is empty');
  const hide = (text: string) => createHmac('sha256', naming).update(text).digest('base64url');
  // A record is named when it is read and again when it is written.
  const names = new LRUCache<string, string>({ max: NAMES_KEPT });

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
      encryptWith(active, place, JSON.stringify(value), random(NONCE_BYTES)),
    decrypt(place, encrypted) {
      const text = decryptWithAny(ring, place, encrypted);
      return text === undefined ? undefined : JSON.parse(text);
    },
  };
}

/** Asks the generator for many bytes at once: a call costs more than all else about a nonce. */
function pooledRandom(): (size: number) => Buffer {
  let pool = Buffer.alloc(0);
  return (size) => {
    if (pool.length < size) pool = randomBytes(POOL_BYTES);
    const bytes = pool.subarray(0, size);
    pool = pool.subarray(size);
    return bytes;
  };
}

function kindOf(key: string): string {
  const colon = key.indexOf(':');
  if (colon < 1) throw new TypeError('a key of the store is <kind>:<id>');
  return key.slice(0, colon);
}

function encryptWith({ id, key }: RingKey, place: string, text: string, nonce: Buffer): Buffer {
  const cipher = createCipheriv(ALGORITHM, key, nonce).setAAD(Buffer.from(place));
  const body = [cipher.update(text), cipher.final()];
  return Buffer.concat([Buffer.of(VERSION, id), nonce, ...body, cipher.getAuthTag()]);
}

function decryptWithAny(ring: RingKey[], place: string, encrypted: Buffer): string | undefined {
  const [version, id] = encrypted;
  if (version !== VERSION || encrypted.length < HEADER_BYTES + NONCE_BYTES + TAG_BYTES)
    return undefined;
  for (const { key } of ring.filter((candidate) => candidate.id === id)) {
    const text = decryptWith(key, place, encrypted);
    if (text !== undefined) return text;
  }
  return undefined;
}

function decryptWith(key: KeyObject, place: string, encrypted: Buffer): string | undefined {
  const nonce = encrypted.subarray(HEADER_BYTES, HEADER_BYTES + NONCE_BYTES);
  const decipher = createDecipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES })
    .setAAD(Buffer.from(place))
    .setAuthTag(encrypted.subarray(-TAG_BYTES));
  const body = decipher.update(encrypted.subarray(HEADER_BYTES + NONCE_BYTES, -TAG_BYTES));
  try {
    return Buffer.concat([body, decipher.final()]).toString();
  } catch {
    return undefined;
  }
}
