// A program that replaces the root secret of a store, or its data keys.
import type { StoreAddress } from '../../src/settings/addresses.ts';
import type { RootSecrets } from '../../src/store/key-derivation.ts';
import { openStore } from '../../src/store/open.ts';
import { watchRewrapping } from './watch-rewrapping.ts';
import { PATIENT_TIMEOUTS } from '../support/scale-out/patient-timeouts.ts';

export type Replacement = {
  address: StoreAddress;
  dataDir: string;
  secrets: RootSecrets;
  newDataKeys: boolean;
};

const { address, dataDir, secrets, newDataKeys }: Replacement = JSON.parse(process.argv[2] ?? '{}');
// The pass itself keeps no process alive.
const alive = setInterval(() => undefined, 1000);
const store = await openStore(address, { ...secrets, dataDir, timeouts: PATIENT_TIMEOUTS });
const watched = newDataKeys ? watchRewrapping(store, { settle: 0.05 }) : undefined;
await store.rewrap.run({ newDataKeys, waitMs: 60_000 });
await watched?.stop();
await store.close();
clearInterval(alive);
