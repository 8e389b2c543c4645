// Connected people: one connects through the real flow, and many are written after that pattern with the same store code.
import { randomBytes } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import type { AdapterPayload } from 'oidc-provider';
import type { Account } from '../../../src/people/account.ts';
import { recordAudit } from '../../../src/audit/audit.ts';
import { auditServices } from '../../support/audit-services.ts';
import { findAccount, saveAccount } from '../../../src/people/accounts.ts';
import { registeredClients } from '../../../src/oauth/engine/clients.ts';
import { documentCopies } from '../../../src/oauth/engine/client-metadata-documents.ts';
import { createGrant } from '../../../src/connections/create-grant.ts';
import { clientKey, type StoredClient } from '../../../src/clients/clients.ts';
import { connectLink } from '../../../src/links/connect-link.ts';
import { createConnector } from '../../../src/links/connectors.ts';
import { grantLifetimes } from '../../../src/connections/grant-lifetime.ts';
import type { GrantRecord } from '../../../src/connections/grant-record.ts';
import { findGrant, updateGrant } from '../../../src/connections/grants.ts';
import { createOpaqueToken, parseOpaqueToken } from '../../../src/connections/opaque-token.ts';
import { persistentKey } from '../../../src/keys/persistent-key.ts';
import type { OpenedStore } from '../../../src/store/open.ts';
import type { Store } from '../../../src/store/store.ts';

/** A person's tokens, for the load. */
export type Person = {
  name: string;
  account: string;
  connector: string;
  grantId: string;
  clientId: string;
  resource: string;
  refreshToken: string;
  accessToken: string;
};

/** The records of person, client and grant that the real flow wrote. */
export type Pattern = {
  account: Account;
  client: StoredClient<AdapterPayload>;
  grant: GrantRecord;
};

const DAY = 86_400;
/** The default lifetimes. */
const LIFETIMES = { accessToken: 3600, refreshTokenIdle: 30 * DAY, unusedClient: DAY };
const NINETY_DAYS = 90 * DAY;
const PEOPLE_PER_CONNECTOR = 100;

export async function readPattern(store: Store, refreshToken: string): Promise<Pattern> {
  const grant = (await findGrant(store, parseOpaqueToken(refreshToken)?.grantId ?? ''))?.value;
  const account = grant && (await findAccount(store, grant.grant.accountId));
  const client =
    grant && (await store.get<Pattern['client']>(clientKey(grant.grant.clientId)))?.value;
  if (!grant?.refresh || !account || !client) throw new Error('the real person is not connected');
  return { account, client, grant };
}

/** Resolves to a function that connects one more person. */
export async function openPeople(
  store: OpenedStore,
  resourceUrl: string,
  pattern: Pattern,
  upstream?: string,
): Promise<() => Promise<Person>> {
  const now = () => Date.now() / 1000;
  const accountKey = await persistentKey(store, 'account-ids');
  const tokenKeys = store.keyRing('codes and refresh tokens');
  const clientLifetimes = { unusedClient: LIFETIMES.unusedClient, usedClient: NINETY_DAYS };
  const copies = documentCopies(store, clientLifetimes, now);
  const clients = registeredClients({
    store,
    lifetimes: clientLifetimes,
    now,
    redirectPolicy: { allowed: new Set(), patterns: [], ownOrigins: new Set() },
    touchDocument: copies.touch,
    preRegistered: new Set(),
  });
  const connectors: Promise<string>[] = [];
  let count = 0;
  return async () => {
    const number = count++;
    const place = Math.floor(number / PEOPLE_PER_CONNECTOR);
    connectors[place] ??= newConnector(store, now(), upstream);
    const connector = await connectors[place];
    const account = await newAccount(store, accountKey, pattern, number);
    const clientId = randomBytes(64)
      .toString('base64url')
      .slice(0, pattern.grant.grant.clientId.length);
    await clients.model.upsert?.(clientId, { ...pattern.client.metadata, client_id: clientId }, 0);
    await clients.touch(clientId);
    const owner = { accountId: account.id, clientId };
    const resource = connectLink(resourceUrl, connector);
    const { id, seed } = await newGrant(store, pattern, owner, { id: connector, resource });
    const generation = pattern.grant.refresh?.generation ?? 0;
    const refreshToken = createOpaqueToken(tokenKeys, id, generation, seed);
    const { id: accountId, name } = account;
    const subject = { account: accountId, clientId, connector, grantId: id };
    const item = { event: 'consent_approved', ...subject, outcome: 'granted' };
    await recordAudit(auditServices(store, now()), item);
    const ids = { account: accountId, connector, grantId: id, clientId };
    return { name, ...ids, resource, refreshToken, accessToken: '' };
  };
}

async function newConnector(
  store: Store,
  now: number,
  upstream: string | undefined,
): Promise<string> {
  const wanted = { name: 'Club figures', level: 'operations', upstream };
  return (await createConnector(store, wanted, now)).id;
}

async function newAccount(
  store: Store,
  key: KeyObject,
  { account }: Pattern,
  number: number,
): Promise<Account> {
  const { id: _id, signedInAt: _at, ...identity } = account;
  // As long as the real value, so that sizes can be compared.
  const subject = number.toString(36).padStart(account.subject.length, '0');
  return saveAccount(
    store,
    key,
    { ...identity, subject, name: nameLike(identity.name, number) },
    { now: Date.now() / 1000, ttl: NINETY_DAYS },
  );
}

const LAST_NAMES = 1000;

/** Another name for each person. A thousandth of them has the same four first letters, by which people are found. */
function nameLike(name: string, number: number): string {
  const [first = ''] = name.split(' ');
  const letters = (number % LAST_NAMES).toString(36).padStart(4, 'h');
  return `${first} ${letters}${number.toString(36)}`;
}

/** Writes consent, code and refreshes, as many as the pattern has. */
async function newGrant(
  store: Store,
  { grant: pattern }: Pattern,
  owner: { accountId: string; clientId: string },
  connector: { id: string; resource: string },
): Promise<{ id: string; seed: string }> {
  const id = randomBytes(64).toString('base64url').slice(0, String(pattern.grant.jti).length);
  const lifetimes = grantLifetimes(LIFETIMES);
  const now = () => Date.now() / 1000;
  const options = { store, lifetimes, grantLifetime: NINETY_DAYS, now };
  const { accountId, clientId } = owner;
  await createGrant(options, id, {
    account: { id: accountId },
    client: { id: clientId, ...pattern.client },
    connector,
    resource: connector.resource,
    scopes: String(pattern.grant.openid?.scope).split(' '),
  });
  const owned = <Payload extends object>(payload: Payload) => ({
    ...payload,
    ...owner,
    grantId: id,
    resource: connector.resource,
  });
  const { code, refresh } = pattern;
  const issue = (record: GrantRecord) => ({
    ...record,
    ...(code ? { code: { ...code, payload: owned(code.payload) } } : {}),
    ...(refresh ? { refresh: { ...refresh, payload: owned(refresh.payload) } } : {}),
  });
  const after = await updateGrant(store, id, issue, { lifetimes, now: now() });
  if (!after) throw new Error('a grant that was just written is not there');
  return { id, seed: after.value.seed };
}
