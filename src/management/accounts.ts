import { type Account, accountLifetime, verifiedEmailOf } from '../accounts/account.ts';
import { DISABLED, setsFor } from '../accounts/account-index.ts';
import {
  disableAccount as disableRecord,
  enableAccount as enableRecord,
  findAccount,
  forgetAccount as forgetRecord,
  isGone,
  listAccounts as listRecords,
} from '../accounts/accounts.ts';
import { recordAudit } from '../audit/audit.ts';
import { endConnections } from '../connections/connections.ts';
import { type HttpError, notFound } from '../http/errors.ts';
import type { Store } from '../store/store.ts';
import type { AccountResource, ForgottenAccountResource, Page } from './api/resources.ts';
import type { AccountsQuery } from './api/requests.ts';
import { accountResource } from './representations.ts';
import type { ManagementContext } from './context.ts';
import { type Listed, scanPage, searchFor } from './search.ts';

export async function listAccounts(
  { services: { store } }: ManagementContext,
  { limit, after, q, state }: AccountsQuery,
): Promise<Page<AccountResource>> {
  const found = searchFor(q);
  const { items, next } = await scanPage(
    listed(store, after, [...(state === 'disabled' ? [DISABLED] : []), ...setsFor(q ?? '')]),
    (account) =>
      found([account.name, verifiedEmailOf(account), account.id, account.issuer]) &&
      (state === undefined || (state === 'disabled') === (account.disabledAt !== undefined)),
    limit,
  );
  return { items: items.map(accountResource), next };
}

async function* listed(
  store: Store,
  after: string | undefined,
  sets: readonly string[],
): AsyncGenerator<Listed<Account | undefined>> {
  for await (const { account, cursor } of listRecords(store, { after, sets }))
    yield { item: account, cursor };
}

export async function showAccount(
  { services: { store } }: ManagementContext,
  id: string,
): Promise<AccountResource> {
  const account = await findAccount(store, id);
  if (!account || isGone(account)) throw unknownAccount();
  return accountResource(account);
}

const CHANGES = { disable: disableRecord, enable: enableRecord } as const;

export async function changeAccount(
  management: ManagementContext,
  id: string,
  change: keyof typeof CHANGES,
): Promise<AccountResource> {
  const { settings, services, by } = management;
  const { store, now } = services;
  const times = { now: now(), ttl: accountLifetime(settings) };
  const changed = await CHANGES[change](store, id, times);
  if (!changed) throw unknownAccount();
  const item = { event: `account_${change}d`, account: changed.account.id, by, outcome: 'done' };
  if (changed.first) await recordAudit(services, item);
  return accountResource(changed.account);
}

/** Idempotent. A grant approved between the two steps is invalid too: forgetting invalidates all earlier grants. */
export async function forgetAccount(
  management: ManagementContext,
  id: string,
): Promise<ForgottenAccountResource> {
  const { settings, services, by } = management;
  const { store, now } = services;
  if (!(await findAccount(store, id))) throw unknownAccount();
  const endedGrants = await endConnections(
    settings,
    services,
    { account: id },
    'account_deleted',
    by,
  );
  const changed = await forgetRecord(store, id, { now: now(), ttl: accountLifetime(settings) });
  if (!changed) throw unknownAccount();
  const item = { event: 'account_forgotten', account: id, by, outcome: 'done' };
  if (changed.first) await recordAudit(services, item);
  return { id, isDisabled: changed.account.disabledAt !== undefined, endedGrants };
}

function unknownAccount(): HttpError {
  return notFound('there is no account with this id');
}
