// The secrets from which all keys of a store are derived. They are random, and stored encrypted with each root secret that opens the store, so
// that replacing the root secret changes one record.
import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import * as z from 'zod';
import { createEncryption, type RingKey } from './encryption.ts';
import { deriveKey } from './key-derivation.ts';
import { StoreNotOpened } from './store.ts';

/**
 * A secret whose keys encrypt and sign. `next` only decrypts, until all processes know it. `old` and `leaving` decrypt values until they are
 * encrypted with the newest one; then `old` becomes `signatures`, which only verifies what was signed with it, and `leaving` is gone.
 */
export type DataSecret = {
  secret: string;
  use: 'newest' | 'next' | 'old' | 'leaving' | 'signatures';
};

/** `names` hides ids in the names of records. It never changes, because changing it would lose every record. */
export type DataKeys = { names: string; secrets: readonly DataSecret[] };

/** Stored under a plain name, because other names need the key in it. */
export const KEYS_RECORD = 'naming:key';

/** What later versions may add is kept. */
const envelopeSchema = z.looseObject({
  format: z.literal(2),
  /** Tells this store from others. Stores of earlier versions get it when they are opened. */
  id: z.string().optional(),
  /** The newest version of Gatehouse that wrote the store, and the oldest one that loses nothing in it. */
  version: z.string(),
  needs: z.string(),
  /** The keys, encrypted with each root secret that opens the store, by its fingerprint; that of the newest root secret is the first. */
  wrapped: z.array(z.looseObject({ by: z.string(), keys: z.string() })).min(1),
  /** The fingerprint of the secret that encrypts, for processes that cannot read the keys any more. */
  newest: z.string().optional(),
  /** Fingerprints of root secrets that open the store no more. */
  replaced: z.array(z.string()),
});

/** The record of the keys. */
export type Envelope = z.infer<typeof envelopeSchema>;

const SECRET_BYTES = 32;
const FINGERPRINT_LENGTH = 16;

export function newDataSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url');
}

/** For `storeId` in the settings. */
export function newStoreId(): string {
  return randomBytes(9).toString('hex');
}

/** Tells secrets from each other, and nothing about them. */
export function fingerprintOf(secret: string): string {
  return deriveKey(secret, 'root secret fingerprint')
    .toString('base64url')
    .slice(0, FINGERPRINT_LENGTH);
}

/** Undefined for the record of version 0.1.0, which begins with the version of an encrypted value. Throws StoreNotOpened if it is damaged. */
export function parseEnvelope(stored: Buffer): Envelope | undefined {
  return isEncrypted(stored) ? undefined : parsed(stored, envelopeSchema);
}

function isEncrypted(stored: Buffer): boolean {
  return stored[0] !== '{'.charCodeAt(0);
}

const versionsSchema = z.object({ version: z.string(), needs: z.string() });

/** The versions in a record of any format, also of a later one. Throws StoreNotOpened if it is damaged. */
export function storedVersions(stored: Buffer): Pick<Envelope, 'version' | 'needs'> | undefined {
  return isEncrypted(stored) ? undefined : parsed(stored, versionsSchema);
}

/** Throws StoreNotOpened. */
function parsed<Value>(stored: Buffer, schema: z.ZodType<Value>): Value {
  try {
    return schema.parse(JSON.parse(stored.toString()));
  } catch (cause) {
    throw new StoreNotOpened(
      'the record of the keys is damaged or of a later version: restore the backup, or start that version',
      { cause },
    );
  }
}

export function envelopeBytes(envelope: Envelope): Buffer {
  return Buffer.from(JSON.stringify(envelope));
}

export function wrap(keys: DataKeys, rootSecret: string): Envelope['wrapped'][number] {
  const encrypted = rootEncryption([rootSecret]).encrypt(KEYS_RECORD, keys);
  return { by: fingerprintOf(rootSecret), keys: encrypted.toString('base64url') };
}

/** Undefined if the root secret does not open it. */
export function unwrap({ wrapped }: Envelope, rootSecret: string): DataKeys | undefined {
  const by = fingerprintOf(rootSecret);
  const encryption = rootEncryption([rootSecret]);
  for (const each of wrapped) {
    if (each.by !== by) continue;
    const keys = encryption.decrypt<DataKeys>(KEYS_RECORD, Buffer.from(each.keys, 'base64url'));
    if (keys) return keys;
  }
  return undefined;
}

/**
 * The keys of a store of version 0.1.0, whose record has the name key, encrypted with one of the root secrets. They encrypted values, and signed
 * codes, refresh tokens and cookies. Undefined if none of them opens it.
 */
export function keysOfEarlierStore(
  stored: Buffer,
  rootSecrets: readonly string[],
): DataKeys | undefined {
  const names = rootEncryption(rootSecrets).decrypt<string>(KEYS_RECORD, stored);
  if (names === undefined) return undefined;
  const old = rootSecrets.map((secret): DataSecret => ({ secret, use: 'old' }));
  return { names, secrets: [{ secret: newDataSecret(), use: 'newest' }, ...old] };
}

/** Of a new store. The name key follows from the root secret, so that all processes name records alike also after the store lost its data. */
export function newKeys(rootSecret: string): DataKeys {
  return {
    names: deriveKey(rootSecret, 'store names').toString('base64url'),
    secrets: [{ secret: newDataSecret(), use: 'newest' }],
  };
}

/** The fingerprint of the secret that encrypts. */
export function newestOf({ secrets }: DataKeys): string | undefined {
  const newest = secrets.find(({ use }) => use === 'newest');
  return newest && fingerprintOf(newest.secret);
}

export function nameKeyOf({ names }: DataKeys): KeyObject {
  return createSecretKey(Buffer.from(names, 'base64url'));
}

/** The keys that decrypt values; the first one encrypts. */
export function valueRing({ secrets }: DataKeys): RingKey[] {
  return secrets.filter(({ use }) => use !== 'signatures').map(({ secret }) => ringKey(secret));
}

/** The secrets whose keys verify signatures; those of the first one sign. */
export function signingSecrets({ secrets }: DataKeys): string[] {
  return secrets.filter(({ use }) => use !== 'next').map(({ secret }) => secret);
}

function rootEncryption(rootSecrets: readonly string[]) {
  const [first = ''] = rootSecrets;
  const nameKey = createSecretKey(deriveKey(first, 'store names'));
  return createEncryption({ nameKey, ring: rootSecrets.map(ringKey) });
}

/** The id is derived separately, so that it reveals nothing about the key. Two secrets may have the same id. */
function ringKey(secret: string): RingKey {
  const [id = 0] = deriveKey(secret, 'store value key id');
  return { id, key: createSecretKey(deriveKey(secret, 'store values')) };
}
