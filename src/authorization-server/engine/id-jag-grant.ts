// The grant behind an assertion: the one that is active is renewed, a new one takes a use, and both are listed and ended as any other.
import { type AuditServices, recordAudit } from '../../audit/audit.ts';
import { type Account, isHonoured } from '../../accounts/account.ts';
import { revokedSince } from '../../clients/clients.ts';
import { type Connector, redeemerOf } from '../../connectors/connector.ts';
import { acquireUse } from '../../connectors/connectors.ts';
import type { UseRecorder } from '../../connectors/use-recorder.ts';
import { redemptionDeadline } from '../../grants/grant-lifetime.ts';
import type { ClientSnapshot } from '../../grants/grant-record.ts';
import { endGrant, isGrantActive } from '../../grants/grants.ts';
import {
  setCurrentGrant,
  renewIdJagGrant,
  type IdJagGrantKey,
  idJagGrantId,
} from '../../grants/id-jag-grants.ts';
import { type Level, levelsUpTo } from '../../permission-level.ts';
import { refusedBecause } from './id-jag-refusals.ts';
import { makeGrant, type NewGrantOptions } from './new-grant.ts';

export type VouchedGrantOptions = NewGrantOptions & AuditServices & { uses: UseRecorder };

export type Vouched = {
  account: Account;
  client: ClientSnapshot & { id: string };
  connector: Connector;
  resource: string;
  level: Level;
  /** What makes the assertion different from any other. */
  assertion: readonly (string | number)[];
};

/** Its id. Refuses when no use is left, or the client was revoked. */
export async function findOrCreateGrant(
  options: VouchedGrantOptions,
  vouched: Vouched,
): Promise<string> {
  const { account, client, connector, level } = vouched;
  const key = { account: account.id, client: client.id, connector: connector.id, level };
  return (await renew(options, key, account)) ?? makeVouchedGrant(options, key, vouched);
}

function renew(
  { store, lifetimes, now }: VouchedGrantOptions,
  key: IdJagGrantKey,
  account: Account,
): Promise<string | undefined> {
  const moment = now();
  // The last access token should live as long as any other.
  const lastMoment = moment + lifetimes.accessToken;
  return renewIdJagGrant(
    store,
    key,
    ({ createdAt, grant }) => isHonoured(account, createdAt) && grant.exp > lastMoment,
    { lifetimes, now: moment },
  );
}

async function makeVouchedGrant(
  options: VouchedGrantOptions,
  key: IdJagGrantKey,
  { account, client, connector, resource, level, assertion }: Vouched,
): Promise<string> {
  const { store, lifetimes, grantLifetime, uses, now } = options;
  const grantId = idJagGrantId(key, assertion);
  const holder = redeemerOf(account.id, client.id);
  const reservation = { grantId, holder, reservedUntil: now() + redemptionDeadline(lifetimes) };
  const isActive = (id: string) => isGrantActive(store, id, lifetimes, now());
  if (!(await acquireUse(store, connector.id, reservation, { now: now(), isActive })))
    throw refusedBecause('used_up');
  const scopes = levelsUpTo(level);
  const isNew = await makeGrant(options, grantId, {
    account,
    client,
    connector,
    resource,
    scopes,
    vouchedAt: now(),
  });
  // Whoever revoked the client meanwhile may have looked for its grants before this one was there.
  if ((await revokedSince(store, client.id)) !== undefined) {
    await endGrant(store, grantId, 'client_revoked', now());
    throw refusedBecause('client_revoked');
  }
  await setCurrentGrant(store, key, grantId, grantLifetime);
  if (!isNew) return grantId;
  uses.record(connector.id, { holder, grantId });
  const who = { account: account.id, clientId: client.id, connector: connector.id, grantId };
  // Nobody was asked, so this is where it can be seen later.
  await recordAudit(options, { event: 'grant_vouched', ...who, outcome: 'granted' });
  return grantId;
}
