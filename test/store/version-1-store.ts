// Stores as version 0.1.0 wrote them: the root secret itself encrypts values.
import { createSecretKey } from 'node:crypto';
import type { ByteStore } from '../../src/store/byte-store.ts';
import { encryptedStore } from '../../src/store/encrypted-store.ts';
import { createEncryption, type EncryptionKeys } from '../../src/store/encryption.ts';
import { deriveKey } from '../../src/store/key-derivation.ts';
import type { Store } from '../../src/store/store.ts';

export function keysOfVersion1(secrets: readonly [string, ...string[]]): EncryptionKeys {
  return {
    nameKey: createSecretKey(deriveKey(secrets[0], 'store names')),
    ring: secrets.map((secret) => ({
      id: deriveKey(secret, 'store value key id')[0] ?? 0,
      key: createSecretKey(deriveKey(secret, 'store values')),
    })),
  };
}

/** A new store, as version 0.1.0 opened it with this root secret. */
export async function createStoreOfVersion1(bytes: ByteStore, secret: string): Promise<Store> {
  const keys = keysOfVersion1([secret]);
  const encryption = createEncryption(keys);
  const nameKey = encryption.encrypt('naming:key', keys.nameKey.export().toString('base64url'));
  await bytes.set('naming:key', nameKey, Infinity);
  return encryptedStore(bytes, encryption);
}
