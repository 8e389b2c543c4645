// Opens the store of a running system with its root secret.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type OpenedStore, openStore } from '../../src/store/open.ts';
import type { System } from './system.ts';
import { PATIENT_TIMEOUTS } from './scale-out/patient-timeouts.ts';

/** The caller closes the store. */
export async function openSystemStore({
  storeAddress,
  dataDir,
}: Pick<System, 'storeAddress' | 'dataDir'>): Promise<{ store: OpenedStore; secret: string }> {
  const secret = readFileSync(join(dataDir, 'secret'), 'utf8').trim();
  const address = storeAddress.startsWith('sqlite:')
    ? ({ kind: 'sqlite', file: storeAddress.slice('sqlite:'.length) } as const)
    : ({ kind: 'redis', url: storeAddress } as const);
  return {
    store: await openStore(address, { secret, dataDir, timeouts: PATIENT_TIMEOUTS }),
    secret,
  };
}
