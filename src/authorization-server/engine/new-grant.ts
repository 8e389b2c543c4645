// Creates a grant record with the engine's Grant, and adds it to the lists.
import type { Lifetimes } from '../../grants/grant-lifetime.ts';
import { listGrant } from '../../grants/grant-lists.ts';
import type { ClientSnapshot } from '../../grants/grant-record.ts';
import { createGrant } from '../../grants/grants.ts';
import type { Store } from '../../store/store.ts';

export type NewGrantOptions = {
  store: Store;
  lifetimes: Lifetimes;
  /** In seconds. */
  grantLifetime: number;
  now: () => number;
};

export type RequestedGrant = {
  account: { id: string };
  client: ClientSnapshot & { id: string };
  connector: { id: string };
  resource: string;
  scopes: string[];
  /** Set for ID-JAG: no code follows. */
  vouchedAt?: number;
};

/**
 * The engine's Grant has the scope twice, because the engine checks its own scopes and those of the resource. Idempotent: if the grant exists
 * (a form was sent twice), nothing changes. True for the one call that created it.
 */
export async function makeGrant(
  { store, lifetimes, grantLifetime, now }: NewGrantOptions,
  grantId: string,
  { account, client, connector, resource, scopes, vouchedAt }: RequestedGrant,
): Promise<boolean> {
  const scope = scopes.join(' ');
  const iat = Math.floor(now());
  const grant = {
    kind: 'Grant',
    jti: grantId,
    iat,
    exp: iat + grantLifetime,
    accountId: account.id,
    clientId: client.id,
    openid: { scope },
    resources: { [resource]: scope },
  };
  const snapshot = { name: client.name, redirectHost: client.redirectHost };
  const owners = { account: account.id, client: client.id, connector: connector.id };
  await listGrant(store, grantId, owners, { lifetime: grantLifetime, now: now() });
  const record = { connector: connector.id, client: snapshot, grant };
  const vouched = vouchedAt === undefined ? {} : { vouchedAt };
  return createGrant(store, grantId, { ...record, ...vouched }, lifetimes, now());
}
