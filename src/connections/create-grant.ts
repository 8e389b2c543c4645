// Creates grants: after a person's consent, for a trusted issuer's assertion, or for a machine.
import { randomBytes } from 'node:crypto';
import type { CallerClaim } from '../settings/schema.ts';
import type { Store } from '../store/store.ts';
import type { Lifetimes } from './grant-lifetime.ts';
import { listEntries } from './grant-lists.ts';
import type { ClientSnapshot, GrantRecord } from './grant-record.ts';
import { addGrant } from './grants.ts';

export function newGrantId(): string {
  return randomBytes(20).toString('base64url');
}

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
  /** Set for machines: no code follows. */
  machine?: GrantRecord['machine'];
  callerClaims?: readonly CallerClaim[];
};

/**
 * Creates the grant record with the engine's Grant, whose scope is stored twice because the engine checks its own scopes and those of the
 * resource. Idempotent: if the grant exists (a form was sent twice), nothing changes. True for the one call that created it.
 */
export async function createGrant(
  { store, lifetimes, grantLifetime, now }: NewGrantOptions,
  grantId: string,
  {
    account,
    client,
    connector,
    resource,
    scopes,
    vouchedAt,
    machine,
    callerClaims = [],
  }: RequestedGrant,
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
  const lists = listEntries(grantId, owners, { lifetime: grantLifetime, now: now() });
  const record = { connector: connector.id, client: snapshot, grant };
  const source = {
    ...(vouchedAt === undefined ? {} : { vouchedAt }),
    ...(machine === undefined ? {} : { machine }),
    ...(callerClaims.length === 0 ? {} : { callerClaims }),
  };
  return addGrant(store, grantId, { ...record, ...source }, lifetimes, now(), lists);
}
