// The naming key in the store: sealed with the root secret, so that a wrong secret is found out by it.
import { createSecretKey } from 'node:crypto';
import { deriveKeys } from './keys.ts';
import { openSealer } from './seal.ts';

/** Not hidden by the sealer, which needs what is in it. */
export const NAMING = 'naming:key';

type Secrets = { secret: string; previousSecret?: string | undefined };

/** Whether these secrets open the store. Undefined when nothing was ever written. Writes nothing itself. */
export async function opensStore(
  read: (name: string) => Promise<Buffer | null>,
  { secret, previousSecret }: Secrets,
): Promise<boolean | undefined> {
  const sealed = await read(NAMING);
  if (sealed === null) return undefined;
  return openSealer(deriveKeys(secret, previousSecret)).open(NAMING, sealed) !== undefined;
}

/**
 * One value, without opening the store, so that nothing is written to it. Undefined when it is not there, or was written with other
 * secrets.
 */
export async function readStored<Value>(
  read: (name: string) => Promise<Buffer | null>,
  key: string,
  { secret, previousSecret }: Secrets,
): Promise<Value | undefined> {
  const keys = deriveKeys(secret, previousSecret);
  const sealed = await read(NAMING);
  const naming = sealed === null ? undefined : openSealer(keys).open<string>(NAMING, sealed);
  if (naming === undefined) return undefined;
  const sealer = openSealer({ ...keys, naming: createSecretKey(Buffer.from(naming, 'base64url')) });
  const name = sealer.name(key);
  const value = await read(name);
  return value === null ? undefined : sealer.open<Value>(name, value);
}
