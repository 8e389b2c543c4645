// The naming key in the store: encrypted with the root secret, so that a wrong secret is found out by it.
import { deriveStoreKeys } from './keys.ts';
import { createEncryption } from './encryption.ts';

/** Not hidden by the encryption, which needs what is in it. */
export const NAMING = 'naming:key';

type Secrets = { secret: string; previousSecret?: string | undefined };

/** Whether these secrets open the store. Undefined when nothing was ever written. Writes nothing itself. */
export async function opensStore(
  read: (name: string) => Promise<Buffer | null>,
  { secret, previousSecret }: Secrets,
): Promise<boolean | undefined> {
  const encrypted = await read(NAMING);
  if (encrypted === null) return undefined;
  return (
    createEncryption(deriveStoreKeys(secret, previousSecret)).decrypt(NAMING, encrypted) !==
    undefined
  );
}
