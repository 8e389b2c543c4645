// Whether the store and both servers are ready.
import type { ManagementContext } from '../context.ts';

const TIMEOUT_MS = 2000;

/** `url` is the address that was asked. */
export type Check = { name: 'store' | 'auth' | 'resource'; url: string; isOk: boolean };

/** Never rejects. */
export async function checkStore({ services }: ManagementContext): Promise<Check> {
  return { name: 'store', url: '', isOk: await succeeds(services.store.ping()) };
}

/** Never rejects. Takes up to two seconds if a server does not answer. */
export async function checkServers({ settings }: ManagementContext): Promise<Check[]> {
  const addresses = [
    ['auth', settings.authUrl],
    ['resource', settings.resourceUrl],
  ] as const;
  return Promise.all(
    addresses.map(async ([name, address]) => {
      const url = `${address}/readyz`;
      return { name, url, isOk: await succeeds(requireReady(url)) };
    }),
  );
}

async function succeeds(check: Promise<unknown>): Promise<boolean> {
  return check.then(
    () => true,
    () => false,
  );
}

/** Asks at the public address, as clients do. */
async function requireReady(url: string): Promise<void> {
  const response = await fetch(url, {
    redirect: 'manual',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`${url} is not ready`);
}
