// The accounts in the store: remember who signed in, find, list, disable, enable, and prompt notice of changes.
import type { KeyObject } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { KEEP, type Store } from '../store/store.ts';
import {
  type Account,
  ACCOUNT_ID,
  accountIdOf,
  disabled,
  enabled,
  forgotten,
  type Identity,
  signedIn,
  type Testimony,
  vouchedFor,
} from './account.ts';

/** Carries the id of an account that was disabled or enabled, or is somebody with other groups or another address now. */
export const ACCOUNTS_CHANNEL = 'accounts';
const ALL = 'accounts:all';
const accountKey = (id: string) => `account:${id}`;

/** `ttl`: how long the record of an account is kept, in seconds. A disabled one is kept for ever, or it would be enabled by time. */
type Keeping = { now: number; ttl: number };

function kept(account: Account, ttl: number) {
  return { value: account, ttl: account.disabledAt === undefined ? ttl : Infinity };
}

function isDescribedAs(account: Account, other: Account): boolean {
  const said = (of: Account) => [
    of.email,
    of.emailVerified,
    of.groups,
    of.organizations,
    of.vouched,
    of.neverSignedIn,
  ];
  return isDeepStrictEqual(said(account), said(other));
}

/** Remembers what the identity provider says now; a person who was disabled stays disabled. */
export async function saveAccount(
  store: Store,
  key: KeyObject,
  identity: Identity,
  { now, ttl }: Keeping,
): Promise<Account> {
  const id = accountIdOf(key, identity.issuer, identity.subject);
  return save(store, id, (current) => kept(signedIn(current, { id, ...identity }, now), ttl));
}

/** The same for what somebody who vouches for the person says, which may be less. */
export async function saveVouchedAccount(
  store: Store,
  testimony: Testimony & { id: string },
  { now, ttl }: Keeping,
): Promise<Account> {
  return save(store, testimony.id, (current) => kept(vouchedFor(current, testimony, now), ttl));
}

async function save(
  store: Store,
  id: string,
  next: (current: Account | undefined) => ReturnType<typeof kept>,
): Promise<Account> {
  let isNews = false;
  const stored = await store.update<Account>(accountKey(id), (current) => {
    const after = next(current);
    isNews = current !== undefined && !isDescribedAs(current, after.value);
    return after;
  });
  if (!stored) throw new Error('an account that was just written is not there');
  // What the person may do is judged by what was read a moment ago.
  if (isNews) await store.publish(ACCOUNTS_CHANNEL, id).catch(() => undefined);
  await store.addMember(ALL, id, Infinity);
  return stored.value;
}

export async function findAccount(store: Store, id: string): Promise<Account | undefined> {
  return ACCOUNT_ID.test(id) ? (await store.get<Account>(accountKey(id)))?.value : undefined;
}

/** In the order of their ids, those after `after`, at most `limit`; ids whose record has run out are forgotten on the way. */
export async function listAccounts(
  store: Store,
  { after = '', limit }: { after?: string; limit: number },
): Promise<Account[]> {
  const ids = (await store.members(ALL)).filter((id) => id > after).sort();
  const found: Account[] = [];
  while (ids.length > 0 && found.length < limit) {
    const batch = ids.splice(0, limit - found.length);
    const accounts = await Promise.all(batch.map((id) => findListed(store, id)));
    found.push(...accounts.flatMap((account) => (account && !isGone(account) ? [account] : [])));
  }
  return found;
}

/** Nobody is behind it, and nothing is to be done about it. */
export function isGone({ forgottenAt, disabledAt }: Account): boolean {
  return forgottenAt !== undefined && disabledAt === undefined;
}

async function findListed(store: Store, id: string): Promise<Account | undefined> {
  const account = await findAccount(store, id);
  if (account) return account;
  await store.removeMember(ALL, id);
  // The person may have signed in between the two.
  if (await findAccount(store, id)) await store.addMember(ALL, id, Infinity);
  return undefined;
}

/** `first`: this call changed it, and not one before or at the same time. */
export type AccountChange = { account: Account; first: boolean };

/** Stops everything the person granted or was granted, also after a failover. Undefined when there is no such account, or it is gone. */
export async function disableAccount(
  store: Store,
  id: string,
  { now, ttl }: Keeping,
): Promise<AccountChange | undefined> {
  const changed = await change(store, id, ttl, (account) =>
    account.disabledAt === undefined && !isGone(account) ? disabled(account, now) : undefined,
  );
  return changed && !isGone(changed.account) ? changed : undefined;
}

/** The person may sign in again; what was theirs before stays over. */
export function enableAccount(
  store: Store,
  id: string,
  { now, ttl }: Keeping,
): Promise<AccountChange | undefined> {
  return change(store, id, ttl, (account) =>
    account.disabledAt === undefined ? undefined : enabled(account, now),
  );
}

/** Nothing of who this is stays; the person may sign in again, unless they are disabled, and is somebody new then. */
export function forgetAccount(
  store: Store,
  id: string,
  { now, ttl }: Keeping,
): Promise<AccountChange | undefined> {
  return change(store, id, ttl, (account) =>
    account.forgottenAt === undefined ? forgotten(account, now) : undefined,
  );
}

async function change(
  store: Store,
  id: string,
  ttl: number,
  next: (account: Account) => Account | undefined,
): Promise<AccountChange | undefined> {
  if (!ACCOUNT_ID.test(id)) return undefined;
  let first = false;
  const after = await store.update<Account>(accountKey(id), (current) => {
    const account = current && next(current);
    first = account !== undefined;
    return account ? kept(account, ttl) : KEEP;
  });
  if (!after) return undefined;
  await Promise.all([
    // Listeners read again every few seconds anyway, so a message that cannot be sent undoes nothing.
    store.publish(ACCOUNTS_CHANNEL, id).catch(() => undefined),
    store.replicated(accountKey(id)),
  ]);
  return { account: after.value, first };
}
