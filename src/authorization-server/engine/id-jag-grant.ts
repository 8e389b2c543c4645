// The grant behind an assertion: the one that stands is renewed, a new one takes a use, and both are listed and ended as any other.
import { type AuditServices, recordAudit } from '../../audit/audit.ts';
import { type Account, isHonoured } from '../../accounts/account.ts';
import { revokedSince } from '../../clients/clients.ts';
import { type Connector, holderOf } from '../../connectors/connector.ts';
import { takeUse } from '../../connectors/connectors.ts';
import type { UseKeeper } from '../../connectors/kept-uses.ts';
import { unusedAfter } from '../../grants/grant-life.ts';
import type { ClientSnapshot } from '../../grants/grant-record.ts';
import { endGrant, grantStands } from '../../grants/grants.ts';
import {
  pointToGrant,
  renewVouchedGrant,
  type Slot,
  vouchedGrantId,
} from '../../grants/vouched-grants.ts';
import { type Level, levelsUpTo } from '../../permission-level.ts';
import { refusedBecause } from './id-jag-refusals.ts';
import { makeGrant, type NewGrantOptions } from './new-grant.ts';

export type VouchedGrantOptions = NewGrantOptions & AuditServices & { uses: UseKeeper };

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
export async function vouchedGrant(
  options: VouchedGrantOptions,
  vouched: Vouched,
): Promise<string> {
  const { account, client, connector, level } = vouched;
  const slot = { account: account.id, client: client.id, connector: connector.id, level };
  return (await renew(options, slot, account)) ?? makeVouchedGrant(options, slot, vouched);
}

function renew(
  { store, lifetimes, now }: VouchedGrantOptions,
  slot: Slot,
  account: Account,
): Promise<string | undefined> {
  const moment = now();
  // The last access token should live as long as any other.
  const lastMoment = moment + lifetimes.accessToken;
  return renewVouchedGrant(
    store,
    slot,
    ({ createdAt, grant }) => isHonoured(account, createdAt) && grant.exp > lastMoment,
    { lifetimes, now: moment },
  );
}

async function makeVouchedGrant(
  options: VouchedGrantOptions,
  slot: Slot,
  { account, client, connector, resource, level, assertion }: Vouched,
): Promise<string> {
  const { store, lifetimes, grantLifetime, uses, now } = options;
  const grantId = vouchedGrantId(slot, assertion);
  const holder = holderOf(account.id, client.id);
  const reservation = { grantId, holder, reservedUntil: now() + unusedAfter(lifetimes) };
  const stands = (id: string) => grantStands(store, id, lifetimes, now());
  if (!(await takeUse(store, connector.id, reservation, { now: now(), stands })))
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
  await pointToGrant(store, slot, grantId, grantLifetime);
  if (!isNew) return grantId;
  uses.keep(connector.id, { holder, grantId });
  const who = { account: account.id, clientId: client.id, connector: connector.id, grantId };
  // Nobody was asked, so this is where it can be seen later.
  await recordAudit(options, { event: 'grant_vouched', ...who, outcome: 'granted' });
  return grantId;
}
