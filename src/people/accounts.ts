// Accounts in the store: save, find, list, disable, enable, forget, announce changes.
import type { KeyObject } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { KEEP, type Store } from '../store/store.ts';
import {
  type Account,
  ACCOUNT_ID,
  ACCOUNT_ID_LENGTH,
  accountIdOf,
  noPerson,
  disabledAccount,
  enabledAccount,
  forgottenAccount,
  type Identity,
  withSignIn,
  type AssertedIdentity,
  withAssertion,
  withSignInsEnded,
} from './account.ts';
import { hasWordsOf, indexAccount, setsFor, startAccountIndex } from './account-index.ts';
import { withSignInToken } from './recheck.ts';

/** Carries the id of an account that was disabled, enabled or forgotten, or whose claims changed. */
export const ACCOUNTS_CHANNEL = 'accounts';
const ALL = 'accounts:all';
const accountKey = (id: string) => `account:${id}`;

/** `ttl` of the record in seconds. Ignored for disabled accounts, which never expire: expiry would enable them. */
type WriteOptions = { now: number; ttl: number };

function withTtl(account: Account, ttl: number) {
  return { value: account, ttl: account.disabledAt === undefined ? ttl : Infinity };
}

/**
 * Saves an account after a sign-in. A disabled account stays disabled. `recheck` is what the provider issued for rechecks; without it, none is
 * possible, and an earlier token is erased.
 */
export async function saveAccount(
  store: Store,
  key: KeyObject,
  identity: Identity,
  { now, ttl, recheck }: WriteOptions & { recheck?: { token?: string } | undefined },
): Promise<Account> {
  const id = accountIdOf(key, identity.issuer, identity.subject);
  return save(store, id, (current) => {
    const account = withSignIn(current, { id, ...identity }, now);
    return withTtl(
      recheck ? withSignInToken(account, current?.recheck, recheck.token) : account,
      ttl,
    );
  });
}

/** Saves an account after a trusted issuer asserted the person (ID-JAG). A disabled account stays disabled. */
export async function saveAssertedAccount(
  store: Store,
  identity: AssertedIdentity & { id: string },
  { now, ttl }: WriteOptions,
): Promise<Account> {
  return save(store, identity.id, (current) => withTtl(withAssertion(current, identity, now), ttl));
}

async function save(
  store: Store,
  id: string,
  next: (current: Account | undefined) => ReturnType<typeof withTtl>,
): Promise<Account> {
  let hasNewClaims = false;
  let before: Account | undefined;
  const stored = await store.update<Account>(accountKey(id), (current) => {
    const after = next(current);
    before = current;
    hasNewClaims = current !== undefined && !hasSameClaims(current, after.value);
    return after;
  });
  if (!stored) throw new Error('the account that was just written was not found');
  // Entitlements and caller headers depend on the claims, and other processes cache the account.
  if (hasNewClaims) await store.publish(ACCOUNTS_CHANNEL, id).catch(() => undefined);
  await Promise.all([
    store.addMember(ALL, id, Infinity),
    indexAccount(store, before, stored.value),
  ]);
  return stored.value;
}

/** Compares the claims that entitlements and caller headers depend on. */
function hasSameClaims(account: Account, other: Account): boolean {
  const claims = (of: Account) => [
    of.name,
    of.email,
    of.emailVerified,
    of.groups,
    of.organizations,
    of.vouched,
    of.neverSignedIn,
  ];
  return isDeepStrictEqual(claims(account), claims(other));
}

export async function findAccount(store: Store, id: string): Promise<Account | undefined> {
  return ACCOUNT_ID.test(id) ? (await store.get<Account>(accountKey(id)))?.value : undefined;
}

/** Finds accounts by id, in the order of the ids. Leaves out ids that no account has. */
export async function findAccounts(
  store: Store,
  ids: readonly string[],
): Promise<Map<string, Account>> {
  const keys = ids.filter((id) => ACCOUNT_ID.test(id)).map(accountKey);
  const found = await store.getMany<Account>(keys);
  return new Map(found.flatMap((account) => (account ? [[account.id, account] as const] : [])));
}

/** Small, because a search may end after the first account of a page. */
const PAGE_ACCOUNTS = 50;
const BATCH_NAMED = 100;
/** The sizes of sets are compared up to this one. */
const MAX_COMPARED = 1000;
/** A set of fewer is read before the accounts that are not in it. */
const MAX_KNOWN = 100;

/** Of the number in front of ids of the first part of a list, which says by which set the part is in order. */
const SET_NUMBER_RADIX = 36;

/** A list continues after `cursor`. Those of the sets are indexed. Without `account`, another account of a set that was read is not in the others. */
export type ListedAccount = { account: Account | undefined; cursor: string; isIndexed: boolean };

/**
 * Yields accounts in an order that does not change: first those in all of the `sets` of the index, then, unless they are enough, the others. Removes
 * ids whose record has expired.
 */
export async function* listAccounts(
  store: Store,
  {
    after = '',
    sets = [],
    isEnough = () => false,
  }: { after?: string | undefined; sets?: readonly string[]; isEnough?: () => boolean } = {},
): AsyncGenerator<ListedAccount> {
  const isFirstPart = after.length > ACCOUNT_ID_LENGTH;
  const [smallest] = await smallestFirst(store, sets);
  const set =
    (isFirstPart && sets[Number.parseInt(after.charAt(0), SET_NUMBER_RADIX)]) || smallest?.set;
  const inSmallest = smallest && (await membersOfSmall(store, smallest));
  if (set !== undefined && (isFirstPart || after === '')) {
    const part = sets.indexOf(set).toString(SET_NUMBER_RADIX);
    for await (const ids of pagesOf(store, set, after.slice(part.length))) {
      const found = await inAll(store, sets, ids);
      const accounts = await readListed(store, [...found], sets);
      for (const id of ids)
        yield { account: visible(accounts.get(id)), cursor: `${part}${id}`, isIndexed: true };
    }
  }
  if (isEnough()) return;
  for await (const ids of pagesOf(store, ALL, isFirstPart ? '' : after)) {
    const candidates = inSmallest ? ids.filter((id) => inSmallest.has(id)) : ids;
    const found = set === undefined ? new Set() : await inAll(store, sets, candidates);
    const others = ids.filter((id) => !found.has(id));
    for (const [id, account] of await readListed(store, others))
      if (visible(account)) yield { account, cursor: id, isIndexed: false };
  }
}

/** Whether more than `count` accounts are listed. Some may have expired meanwhile. */
export async function hasMoreAccounts(store: Store, count: number): Promise<boolean> {
  const [size = 0] = await store.sizes([ALL], count + 1);
  return size > count;
}

/**
 * The first ids of accounts of the index that have these words, at most `limit`, in order. Words that nobody has are ignored. Where each word belongs to
 * more than a thousand people, only a thousand of one are looked at.
 */
export async function findNamed(store: Store, q: string, limit: number): Promise<string[]> {
  const named = (await smallestFirst(store, setsFor(q))).filter(({ size }) => size > 0);
  const [smallest, ...others] = named.map(({ set }) => set);
  if (smallest === undefined) return [];
  const ids = (await store.page(smallest, { limit: MAX_COMPARED })).toSorted();
  const found: string[] = [];
  for (let from = 0; from < ids.length && found.length < limit; from += BATCH_NAMED) {
    const inSets = await inAll(store, others, ids.slice(from, from + BATCH_NAMED));
    for (const [id, account] of await findAccounts(store, [...inSets]))
      if (hasWordsOf(account, q, [smallest, ...others])) found.push(id);
  }
  return found.slice(0, limit);
}

/** Sizes are counted up to `MAX_COMPARED`. */
async function smallestFirst(
  store: Store,
  sets: readonly string[],
): Promise<{ set: string; size: number }[]> {
  const sizes = await store.sizes(sets, MAX_COMPARED);
  const sized = sets.map((set, index) => ({ set, size: sizes[index] ?? 0 }));
  return sized.toSorted((one, other) => one.size - other.size);
}

/** Undefined for sets that are not small. */
async function membersOfSmall(
  store: Store,
  { set, size }: { set: string; size: number },
): Promise<Set<string> | undefined> {
  if (size >= MAX_KNOWN) return undefined;
  const ids = await store.page(set, { limit: MAX_KNOWN });
  return ids.length < MAX_KNOWN ? new Set(ids) : undefined;
}

async function* pagesOf(store: Store, set: string, after: string): AsyncGenerator<string[]> {
  for (let last = after || undefined; ;) {
    const ids = await store.page(set, { after: last, limit: PAGE_ACCOUNTS });
    if (ids.length > 0) yield ids;
    if (ids.length < PAGE_ACCOUNTS) return;
    last = ids.at(-1);
  }
}

async function inAll(
  store: Store,
  sets: readonly string[],
  ids: readonly string[],
): Promise<Set<string>> {
  const found = await Promise.all(sets.map((set) => store.includes(set, ids)));
  return new Set(ids.filter((id) => found.every((members) => members.has(id))));
}

function visible(account: Account | undefined): Account | undefined {
  return account && !isGone(account) ? account : undefined;
}

/** Forgotten accounts are hidden, unless they are disabled: an administrator may still enable them. */
export function isGone({ forgottenAt, disabledAt }: Account): boolean {
  return forgottenAt !== undefined && disabledAt === undefined;
}

/** As `findAccounts`. Removes ids that no account has from the sets. */
async function readListed(
  store: Store,
  ids: readonly string[],
  sets: readonly string[] = [],
): Promise<Map<string, Account>> {
  const found = await findAccounts(store, ids);
  const gone = ids.filter((id) => ACCOUNT_ID.test(id) && !found.has(id));
  await Promise.all(gone.map((id) => removeListed(store, id, sets)));
  return found;
}

async function removeListed(store: Store, id: string, sets: readonly string[]): Promise<void> {
  // If it fails, the next read tries again.
  const remove = (set: string) => store.removeMember(set, id).catch(() => undefined);
  await Promise.all([ALL, ...sets].map(remove));
  // The person may have signed in since the first read.
  const again = await findAccount(store, id);
  if (again)
    await Promise.all([store.addMember(ALL, id, Infinity), indexAccount(store, undefined, again)]);
}

/** Completes the index of accounts once a day until stopped. */
export function keepAccountIndex(store: Store) {
  return startAccountIndex(store, () => allAccounts(store));
}

export async function* allAccounts(store: Store): AsyncGenerator<Account> {
  for await (const { account } of listAccounts(store)) if (account) yield account;
}

/** `first`: true for the one call that changed the account. */
export type AccountChange = { account: Account; first: boolean };

/** Invalidates all sessions and grants of the person, also after a failover. Undefined if there is no such account, or it is gone. */
export async function disableAccount(
  store: Store,
  id: string,
  { now, ttl }: WriteOptions,
): Promise<AccountChange | undefined> {
  const changed = await updateAccount(store, id, ttl, (account) =>
    account.disabledAt === undefined && !isGone(account)
      ? disabledAccount(account, now)
      : undefined,
  );
  return changed && !isGone(changed.account) ? changed : undefined;
}

/** Stores that somebody is disabled of whom nothing else is known. They stay so when they sign in. */
export async function addDisabledAccount(store: Store, id: string, at: number): Promise<void> {
  if (!ACCOUNT_ID.test(id)) return;
  const unknown = { id, ...noPerson(), signedInAt: at };
  await save(store, id, (current) =>
    withTtl(disabledAccount(current ?? forgottenAccount(unknown, at), at), Infinity),
  );
}

/** The person may sign in again. Earlier sessions and grants stay invalid. */
export function enableAccount(
  store: Store,
  id: string,
  { now, ttl }: WriteOptions,
): Promise<AccountChange | undefined> {
  return updateAccount(store, id, ttl, (account) =>
    account.disabledAt === undefined ? undefined : enabledAccount(account, now),
  );
}

/** Erases personal data. The person may sign in again as a new account with the same id, unless the account is disabled. */
export function forgetAccount(
  store: Store,
  id: string,
  { now, ttl }: WriteOptions,
): Promise<AccountChange | undefined> {
  return updateAccount(store, id, ttl, (account) =>
    account.forgottenAt === undefined ? forgottenAccount(account, now) : undefined,
  );
}

/** Ends the sessions that sign-ins at these times opened. Grants stay valid. */
export async function endSessions(
  store: Store,
  id: string,
  signIns: readonly number[],
  { now, ttl }: WriteOptions,
): Promise<void> {
  await updateAccount(store, id, ttl, (account) => withSignInsEnded(account, signIns, now));
}

/** Writes what `next` returns, and announces it. Undefined writes nothing. Resolves to undefined if there is no account. */
export async function updateAccount(
  store: Store,
  id: string,
  ttl: number,
  next: (account: Account) => Account | undefined,
): Promise<AccountChange | undefined> {
  if (!ACCOUNT_ID.test(id)) return undefined;
  let first = false;
  let before: Account | undefined;
  const after = await store.update<Account>(accountKey(id), (current) => {
    const account = current && next(current);
    before = current;
    first = account !== undefined;
    return account ? withTtl(account, ttl) : KEEP;
  });
  if (!after) return undefined;
  await Promise.all([
    // Listeners also refresh every few seconds, so a lost message only delays them.
    store.publish(ACCOUNTS_CHANNEL, id).catch(() => undefined),
    store.replicated(accountKey(id)),
    indexAccount(store, before, after.value),
  ]);
  return { account: after.value, first };
}
