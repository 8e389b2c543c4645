// Accounts as administrators manage them: the people who signed in, listed, and cut off or let in again.
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
import {
  accountResource,
  type AccountResource,
  accountPage,
  accountSchema,
  firstPage,
  type ForgottenAccountResource,
  forgottenAccountSchema,
  type Page,
} from './api/resources.ts';
import { accountsQuery } from './api/requests.ts';
import { NOT_FOUND, route } from './api/routes.ts';
import type { ManagementServices } from './services.ts';

export const accountRoutes = [
  route({
    method: 'get',
    path: '/accounts',
    name: 'listAccounts',
    summary: 'Lists everybody who signed in, in no useful order.',
    query: accountsQuery,
    answer: accountPage,
    handle: (services, { query }) => listAccounts(services, query),
  }),
  route({
    method: 'get',
    path: '/accounts/:id',
    name: 'showAccount',
    summary: 'Shows an account.',
    answer: accountSchema,
    refusals: NOT_FOUND,
    handle: (services, { id }) => showAccount(services, id),
  }),
  route({
    method: 'post',
    path: '/accounts/:id/disable',
    name: 'disableAccount',
    summary:
      'Cuts a person off: nothing they connected works any more, and they cannot connect. Somebody who was forgotten is not known.',
    answer: accountSchema,
    refusals: NOT_FOUND,
    handle: (services, { id }) => changeAccount(services, id, 'disable'),
  }),
  route({
    method: 'post',
    path: '/accounts/:id/enable',
    name: 'enableAccount',
    summary: 'Lets a person sign in and connect again.',
    answer: accountSchema,
    refusals: NOT_FOUND,
    handle: (services, { id }) => changeAccount(services, id, 'enable'),
  }),
  route({
    method: 'post',
    path: '/accounts/:id/forget',
    name: 'forgetAccount',
    summary:
      'Ends all that a person connected, and removes name, address, groups and subject. A person who is disabled stays so.',
    answer: forgottenAccountSchema,
    refusals: NOT_FOUND,
    handle: (services, { id }) => forgetAccount(services, id),
  }),
];

export async function listAccounts(
  { store }: ManagementServices,
  { limit, after }: { limit: number; after?: string | undefined },
): Promise<Page<AccountResource>> {
  const { items, next } = firstPage(await listRecords(store, { after, limit: limit + 1 }), limit);
  return { items: items.map(accountResource), next };
}

export async function showAccount(
  { store }: ManagementServices,
  id: string,
): Promise<AccountResource> {
  const account = await findAccount(store, id);
  if (!account || isGone(account)) throw unknownAccount();
  return accountResource(account);
}

const CHANGES = { disable: disableRecord, enable: enableRecord } as const;

export async function changeAccount(
  { store, accountLifetime, by, now }: ManagementServices,
  id: string,
  change: keyof typeof CHANGES,
): Promise<AccountResource> {
  const changed = await CHANGES[change](store, id, { now: now(), ttl: accountLifetime });
  if (!changed) throw unknownAccount();
  const item = { event: `account_${change}d`, account: changed.account.id, by, outcome: 'done' };
  if (changed.first) await recordAudit(store, item, now());
  return accountResource(changed.account);
}

/** May be asked again after it was cut short. What is approved between the two steps is over as well. */
export async function forgetAccount(
  services: ManagementServices,
  id: string,
): Promise<ForgottenAccountResource> {
  const { store, accountLifetime, by, now } = services;
  if (!(await findAccount(store, id))) throw unknownAccount();
  const endedGrants = await endConnections(services, { account: id }, 'account_deleted');
  const changed = await forgetRecord(store, id, { now: now(), ttl: accountLifetime });
  if (!changed) throw unknownAccount();
  const item = { event: 'account_forgotten', account: id, by, outcome: 'done' };
  if (changed.first) await recordAudit(store, item, now());
  return { id, isDisabled: changed.account.disabledAt !== undefined, endedGrants };
}

function unknownAccount(): HttpError {
  return notFound('there is no account with this id');
}
