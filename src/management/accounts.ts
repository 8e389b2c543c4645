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
import type { AccountResource, ForgottenAccountResource, Page } from './api/resources.ts';
import { accountResource, firstPage } from './representations.ts';
import type { ManagementServices } from './services.ts';

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
  services: ManagementServices,
  id: string,
  change: keyof typeof CHANGES,
): Promise<AccountResource> {
  const { store, accountLifetime, by, now } = services;
  const changed = await CHANGES[change](store, id, { now: now(), ttl: accountLifetime });
  if (!changed) throw unknownAccount();
  const item = { event: `account_${change}d`, account: changed.account.id, by, outcome: 'done' };
  if (changed.first) await recordAudit(services, item);
  return accountResource(changed.account);
}

/** Idempotent. A grant approved between the two steps is invalid too: forgetting invalidates all earlier grants. */
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
  if (changed.first) await recordAudit(services, item);
  return { id, isDisabled: changed.account.disabledAt !== undefined, endedGrants };
}

function unknownAccount(): HttpError {
  return notFound('there is no account with this id');
}
