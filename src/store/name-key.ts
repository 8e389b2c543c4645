// The key that hides ids in the names of records (HMAC). It is derived from the first root secret and never changes, because changing it
// would lose every record. It is stored encrypted with the current root secret.
import { createSecretKey, type KeyObject } from 'node:crypto';
import type { ByteStore } from './byte-store.ts';
import { createEncryption, type EncryptionKeys } from './encryption.ts';
import { deriveStoreKeys, type RootSecrets } from './key-derivation.ts';
import { StoreNotOpened } from './store.ts';

/** Stored under a plain name, because other names need this key. */
const NAME_KEY = 'naming:key';

/** Returns the stored key, or stores `keys.nameKey` if the store is empty. Throws StoreNotOpened if the stored key cannot be decrypted. */
export async function loadNameKey(bytes: ByteStore, keys: EncryptionKeys): Promise<KeyObject> {
  const encryption = createEncryption(keys);
  const initial = encryption.encrypt(NAME_KEY, keys.nameKey.export().toString('base64url'));
  const stored = await bytes.compareAndSwap(NAME_KEY, undefined, initial, Infinity);
  if (stored === true || stored === undefined) return keys.nameKey;
  const nameKey = encryption.decrypt<string>(NAME_KEY, stored);
  if (nameKey === undefined) {
    throw new StoreNotOpened(
      'the store was created with another root secret: set GATEHOUSE_SECRET to that secret',
    );
  }
  const current = createEncryption({ ...keys, ring: keys.ring.slice(0, 1) });
  if (!current.decrypt(NAME_KEY, stored))
    await bytes.compareAndSwap(NAME_KEY, stored, current.encrypt(NAME_KEY, nameKey), Infinity);
  return createSecretKey(Buffer.from(nameKey, 'base64url'));
}

/** Returns whether the secrets decrypt the store, or undefined if the store is empty. Does not write. */
export async function canDecryptStore(
  read: (name: string) => Promise<Buffer | null>,
  secrets: RootSecrets,
): Promise<boolean | undefined> {
  const stored = await read(NAME_KEY);
  if (stored === null) return undefined;
  return createEncryption(deriveStoreKeys(secrets)).decrypt(NAME_KEY, stored) !== undefined;
}

/**
 * Reads one value without opening the store, so that nothing is written. Returns undefined if the value does not exist or was written with
 * other secrets.
 */
export async function readStored<Value>(
  read: (name: string) => Promise<Buffer | null>,
  key: string,
  secrets: RootSecrets,
): Promise<Value | undefined> {
  const keys = deriveStoreKeys(secrets);
  const stored = await read(NAME_KEY);
  const secret =
    stored === null ? undefined : createEncryption(keys).decrypt<string>(NAME_KEY, stored);
  if (secret === undefined) return undefined;
  const nameKey = createSecretKey(Buffer.from(secret, 'base64url'));
  const encryption = createEncryption({ ...keys, nameKey });
  const name = encryption.name(key);
  const value = await read(name);
  return value === null ? undefined : encryption.decrypt<Value>(name, value);
}
