// Ends the credentials of people who have left, that no connection uses, or whose upstream is gone, and tries revocations again. A process that
// ends an account need not do it, so that nothing is missed if it is killed.
import { type Lease, openLease } from '../audit/lease.ts';
import { type BackgroundLoop, startLoop } from '../background-loop.ts';
import { listConnections } from '../connections/connections.ts';
import { grantEnd } from '../people/account.ts';
import { ACCOUNTS_CHANNEL, findAccount } from '../people/accounts.ts';
import type { Services } from '../services.ts';
import type { Settings } from '../settings/settings.ts';
import { findUpstream } from '../settings/upstreams.ts';
import { StoreUnavailable } from '../store/store.ts';
import { type Credential, type CredentialEnd, isFor } from './credential.ts';
import { listCredentials, updateCredential } from './credentials.ts';
import { endCredential } from './end.ts';
import { OPERATOR } from './operator.ts';
import { retryRevocations } from './revocation.ts';

const POLL_MS = 1000;
const SCAN_SECONDS = 60;
const KEEP_MS = 2000;
/** After the last connection of the person to the upstream ended, and after the settings lost the upstream. */
const UNUSED_SECONDS = 30 * 86_400;

type Current = { settings: Settings; services: Services };

/** `current` returns what is in force. One process at a time works. */
export function keepCredentialsEnded(current: () => Current): BackgroundLoop {
  const { store } = current().services;
  const lease = openLease(store, 'credential-ends-lease:all');
  let scannedAt = -Infinity;
  /** Accounts that were disabled or forgotten lose their credentials at once. */
  const changed = new Set<string>();
  const subscribed = store
    .subscribe(ACCOUNTS_CHANNEL, (account) => changed.add(account))
    // Without notices, the next scan finds them.
    .catch(() => undefined);
  /** Services may answer slowly, which delays no end. */
  let retrying: Promise<void> | undefined;
  const run = async () => {
    const { settings, services } = current();
    const now = services.now();
    const isDue = Math.abs(now - scannedAt) >= SCAN_SECONDS;
    if (!isDue && changed.size === 0) return POLL_MS;
    await lease.keep();
    const accounts = [...changed];
    changed.clear();
    if (!lease.isHeld()) return POLL_MS;
    for (const account of accounts) await endEnded({ settings, services }, lease, { account });
    if (!isDue) return POLL_MS;
    scannedAt = now;
    retrying ??= retryRevocations(settings, services).finally(() => {
      retrying = undefined;
    });
    retrying.catch(() => undefined);
    await endEnded({ settings, services }, lease);
    return POLL_MS;
  };
  const loop = startLoop(() =>
    run().catch((error: unknown) => {
      if (!(error instanceof StoreUnavailable))
        current().services.logger.error({ err: error }, 'ended credentials could not be removed');
      return POLL_MS;
    }),
  );
  return {
    async stop() {
      await loop.stop();
      (await subscribed)?.();
      await lease.release();
    },
  };
}

/** Stops when another process has taken over. */
async function endEnded(
  current: Current,
  lease: Lease,
  filter: { account?: string } = {},
): Promise<void> {
  let keptAt = performance.now();
  for (const credential of await listCredentials(current.services.store, filter)) {
    if (performance.now() - keptAt >= KEEP_MS) {
      await lease.keep();
      keptAt = performance.now();
    }
    if (!lease.isHeld()) return;
    const cause = await causeOf(current, credential);
    if (cause) await endCredential(current, credential, { cause, isSame: isSameAs(credential) });
  }
}

function isSameAs({ epoch }: Credential) {
  return (current: Credential) => current.epoch === epoch;
}

async function causeOf(
  { settings, services }: Current,
  credential: Credential,
): Promise<CredentialEnd | undefined> {
  const { store, now } = services;
  const account = await findAccount(store, credential.account);
  if (account?.forgottenAt !== undefined) return 'account_forgotten';
  const ended = account && grantEnd(account, credential.connectedAt);
  if (ended) return ended.reason;
  const isServed = isFor(credential, findUpstream(settings.upstreams, credential));
  const isUsed =
    isServed &&
    (credential.account === OPERATOR || (await hasConnection({ settings, services }, credential)));
  const { unusedSince } = credential;
  if (isUsed && unusedSince === undefined) return undefined;
  if (!isUsed && unusedSince !== undefined && now() - unusedSince >= UNUSED_SECONDS)
    return isServed ? 'unused' : 'upstream_removed';
  if (isUsed || unusedSince === undefined)
    await updateCredential(store, credential, (current) => {
      const { unusedSince: _, ...used } = current;
      return isUsed ? used : { ...used, unusedSince: now() };
    });
  return undefined;
}

async function hasConnection(
  { settings, services }: Current,
  { account, upstream }: Credential,
): Promise<boolean> {
  for await (const { item } of listConnections(settings, services, { account })) {
    if (item.state === 'ended') continue;
    if (findUpstream(settings.upstreams, item.connector)?.id === upstream) return true;
  }
  return false;
}
