// Seals what is stored (AES-256-GCM, key ring, bound to its place) and hides ids in key names (HMAC-SHA-256).
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

/** `id` is one byte and stands in every value it sealed; it is a hint, not a name. A KeyObject, because Node turns a Buffer into one on every call. */
export type RingKey = { id: number; key: KeyObject };

export interface Sealer {
  /** `<kind>:<id>` with the id hidden; throws a TypeError when there is no kind. */
  name(key: string): string;
  /** The hidden form of a member of the set called `name`; the same member looks different in another set. */
  field(name: string, member: string): string;
  /** Version, key id, nonce, ciphertext, tag. Two calls never give the same bytes, which the store's compare-and-set relies on. */
  seal(place: string, value: unknown): Buffer;
  /** Undefined for all that was not sealed for this place with a key of the ring. */
  open<T>(place: string, sealed: Buffer): T | undefined;
}

export type SealerKeys = { naming: KeyObject; ring: RingKey[] };

/** The first key of the ring seals, every key of it opens. The naming key cannot change: that would lose every record. */
export function openSealer({ naming, ring }: SealerKeys, random = pooledRandom()): Sealer {
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
    seal: (place, value) => encrypt(active, place, JSON.stringify(value), random(NONCE_BYTES)),
    open(place, sealed) {
      const text = decryptWithAny(ring, place, sealed);
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

function encrypt({ id, key }: RingKey, place: string, text: string, nonce: Buffer): Buffer {
  const cipher = createCipheriv(ALGORITHM, key, nonce).setAAD(Buffer.from(place));
  const body = [cipher.update(text), cipher.final()];
  return Buffer.concat([Buffer.of(VERSION, id), nonce, ...body, cipher.getAuthTag()]);
}

function decryptWithAny(ring: RingKey[], place: string, sealed: Buffer): string | undefined {
  const [version, id] = sealed;
  if (version !== VERSION || sealed.length < HEADER_BYTES + NONCE_BYTES + TAG_BYTES)
    return undefined;
  for (const { key } of ring.filter((candidate) => candidate.id === id)) {
    const text = decrypt(key, place, sealed);
    if (text !== undefined) return text;
  }
  return undefined;
}

function decrypt(key: KeyObject, place: string, sealed: Buffer): string | undefined {
  const nonce = sealed.subarray(HEADER_BYTES, HEADER_BYTES + NONCE_BYTES);
  const decipher = createDecipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES })
    .setAAD(Buffer.from(place))
    .setAuthTag(sealed.subarray(-TAG_BYTES));
  const body = decipher.update(sealed.subarray(HEADER_BYTES + NONCE_BYTES, -TAG_BYTES));
  try {
    return Buffer.concat([body, decipher.final()]).toString();
  } catch {
    return undefined;
  }
}
