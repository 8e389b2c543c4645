// The naming key in the store: sealed with the root secret, so that a wrong secret is found out by it.
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
