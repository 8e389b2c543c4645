// Credentials of people at upstreams in the store: save, find, list, delete, announce changes.
import { randomUUID } from 'node:crypto';
import { KEEP, type Store } from '../store/store.ts';
import { type Credential, credentialId, credentialIdParts } from './credential.ts';

/** Carries the id of a credential that was stored, refreshed or ended. */
export const CREDENTIALS_CHANNEL = 'credentials';

export type Owner = Pick<Credential, 'account' | 'upstream'>;

const ALL = 'credentials:all';
const ofAccount = (account: string) => `credentials-of:account:${account}`;
const credentialKey = (owner: Owner) => `credential:${credentialId(owner)}`;

export async function findCredential(store: Store, owner: Owner): Promise<Credential | undefined> {
  return (await store.get<Credential>(credentialKey(owner)))?.value;
}

/** Longer than an authorization at a service lasts. */
const END_SECONDS = 3600;
const endKey = (owner: Owner) => `credential-end:${credentialId(owner)}`;

/** What was begun before does not store a credential any more. */
export async function markCredentialEnd(store: Store, owner: Owner): Promise<void> {
  await store.set(endKey(owner), randomUUID(), END_SECONDS);
}

/** Another one after each end; undefined if there was none lately. */
export async function lastCredentialEnd(store: Store, owner: Owner): Promise<string | undefined> {
  return (await store.get<string>(endKey(owner)))?.value;
}

/** Replaces what is stored. `next` is pure. */
export async function saveCredential(
  store: Store,
  owner: Owner,
  next: (before: Credential | undefined) => Credential,
): Promise<void> {
  await addToLists(store, owner);
  await store.update<Credential>(credentialKey(owner), (before) => ({
    value: next(before),
    ttl: Infinity,
  }));
  // An end of the credential before this one may have removed it meanwhile.
  await addToLists(store, owner);
  await announce(store, owner);
}

async function addToLists(store: Store, owner: Owner): Promise<void> {
  const id = credentialId(owner);
  await store.addMember(ALL, id, Infinity);
  await store.addMember(ofAccount(owner.account), id, Infinity);
}

/** `next` is pure. Undefined keeps the record. Returns the record as it is afterwards; undefined if there is none. */
export async function updateCredential(
  store: Store,
  owner: Owner,
  next: (current: Credential) => Credential | undefined,
): Promise<Credential | undefined> {
  const stored = await store.update<Credential>(credentialKey(owner), (current) => {
    const value = current && next(current);
    return value === undefined ? KEEP : { value, ttl: Infinity };
  });
  return stored?.value;
}

/** Deletes the record if `isSame` holds. Returns it to exactly one caller. */
export async function deleteCredential(
  store: Store,
  owner: Owner,
  isSame: (current: Credential) => boolean = () => true,
): Promise<Credential | undefined> {
  let deleted: Credential | undefined;
  await store.update<Credential>(credentialKey(owner), (current) => {
    deleted = current && isSame(current) ? current : undefined;
    return deleted ? undefined : KEEP;
  });
  if (!deleted) return undefined;
  await announce(store, owner);
  const id = credentialId(owner);
  await Promise.all([
    store.removeMember(ALL, id),
    store.removeMember(ofAccount(owner.account), id),
  ]);
  // What is in no list would outlive the account.
  if (await findCredential(store, owner)) await addToLists(store, owner);
  return deleted;
}

/** Of an account, or all. */
export async function listCredentials(
  store: Store,
  { account, upstream }: Partial<Owner> = {},
): Promise<Credential[]> {
  const ids = await store.members(account === undefined ? ALL : ofAccount(account));
  const owners = ids
    .map(credentialIdParts)
    .filter((owner) => owner !== undefined)
    .filter((owner) => upstream === undefined || owner.upstream === upstream);
  const found = await Promise.all(owners.map((owner) => findCredential(store, owner)));
  return found
    .filter((credential) => credential !== undefined)
    .toSorted((one, other) => one.connectedAt - other.connectedAt);
}

/** Processes read the record again. A lost message delays them by some seconds. */
export async function announce(store: Store, owner: Owner): Promise<void> {
  await store.publish(CREDENTIALS_CHANNEL, credentialId(owner)).catch(() => undefined);
}
