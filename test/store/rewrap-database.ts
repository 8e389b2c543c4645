// Databases for the tests of the root secret.
import type { Redis } from 'ioredis';
import type { StoreAddress } from '../../src/settings/addresses.ts';
import { openStore } from '../../src/store/open.ts';
import type { Database } from './rewrap-contract.ts';
import { PATIENT_TIMEOUTS } from '../support/scale-out/patient-timeouts.ts';

type ClosedLater = { close(): Promise<void> };

/** Opens databases at an address and closes them all at the end. */
export function databaseAt(
  address: StoreAddress,
  dataDir: string,
  rest: Pick<Database, 'openBytes' | 'expiries'>,
): Database {
  const opened: ClosedLater[] = [];
  const closing = async <T extends ClosedLater>(opening: Promise<T>): Promise<T> => {
    const each = await opening;
    opened.push(each);
    return each;
  };
  return {
    open: (options) =>
      closing(openStore(address, { dataDir, timeouts: PATIENT_TIMEOUTS, ...options })),
    openBytes: () => closing(rest.openBytes()),
    expiries: rest.expiries,
    async close() {
      for (const each of opened) await each.close();
    },
  };
}

/** The expiries of all keys on all servers. */
export async function expiriesIn(raws: Redis[]): Promise<Map<string, number>> {
  const expiries = new Map<string, number>();
  for (const raw of raws) {
    for (const name of await raw.keys('*')) {
      const left = await raw.pttl(name);
      expiries.set(name, left === -1 ? Infinity : (Date.now() + left) / 1000);
    }
  }
  return expiries;
}
