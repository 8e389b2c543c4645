// The person that an assertion vouches for: who it is here, and whether the rules let them in.
import type { KeyObject } from 'node:crypto';
import {
  type Account,
  accountIdOf,
  isHonoured,
  type Testimony,
  vouchedFor,
} from '../../accounts/account.ts';
import { findAccount, saveVouchedAccount } from '../../accounts/accounts.ts';
import type { Level } from '../../permission-level.ts';
import type { Store } from '../../store/store.ts';
import type { IdJag } from './id-jag-judgement.ts';
import { refusedBecause } from './id-jag-refusals.ts';
import type { TokenPolicy } from './token-request.ts';

export type VouchedAccountOptions = {
  store: Store;
  policy: TokenPolicy;
  accountKey: KeyObject;
  /** In seconds. */
  accountLifetime: number;
  now: () => number;
};

export type KnownTestimony = Testimony & { id: string };

export function testimonyOf(
  { accountKey }: VouchedAccountOptions,
  { person }: IdJag,
): KnownTestimony {
  return { ...person, id: accountIdOf(accountKey, person.issuer, person.subject) };
}

/** The person as known from now on, with what the rules give. Nothing is written. */
export async function admittedAccount(
  { store, policy, now }: VouchedAccountOptions,
  { issuedAt }: IdJag,
  testimony: KnownTestimony,
): Promise<Account & { entitled: Level }> {
  const known = await findAccount(store, testimony.id);
  if (known && !isHonoured(known, issuedAt)) throw refusedBecause('account_disabled');
  const account = vouchedFor(known, testimony, now());
  const entitled = policy.levelOf(account, 'id-jag');
  if (!entitled) throw refusedBecause('not_entitled');
  return { ...account, entitled };
}

export async function rememberAccount(
  { store, policy, accountLifetime, now }: VouchedAccountOptions,
  testimony: KnownTestimony,
): Promise<void> {
  const account = await saveVouchedAccount(store, testimony, { now: now(), ttl: accountLifetime });
  // What is issued is judged by the record, which an administrator may have changed meanwhile.
  await policy.refreshAccount(account.id);
}
