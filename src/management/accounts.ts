// Accounts over the management API: the people who signed in, listed, and cut off or let in again.
import type { Router } from '@koa/router';
import {
  type AccountChange,
  disableAccount,
  enableAccount,
  findAccount,
  listAccounts,
} from '../accounts/accounts.ts';
import { recordAudit } from '../audit/audit.ts';
import { type HttpError, notFound } from '../http/errors.ts';
import type { Store } from '../store/store.ts';
import { accountDocument, firstPage } from './documents.ts';
import { accountsQuery, parseInput } from './input.ts';

export type AccountOptions = {
  store: Store;
  /** How long the record of an account is kept after a sign-in, in seconds. */
  accountLifetime: number;
  /** Seconds since the epoch. */
  now: () => number;
};

const CHANGES = { disable: disableAccount, enable: enableAccount } as const;

export function accountRoutes(router: Router, options: AccountOptions): void {
  const { store, accountLifetime, now } = options;

  router.get('/accounts', async function list(ctx) {
    const { limit, after } = parseInput(accountsQuery, { ...ctx.query });
    const more = await listAccounts(store, { after, limit: limit + 1 });
    const { items, next } = firstPage(more, limit);
    ctx.body = { items: items.map(accountDocument), next };
  });

  router.get('/accounts/:id', async function show(ctx) {
    const account = await findAccount(store, ctx.params.id ?? '');
    if (!account) throw unknownAccount();
    ctx.body = accountDocument(account);
  });

  for (const [name, change] of Object.entries(CHANGES)) {
    router.post(`/accounts/:id/${name}`, async function changeAccount(ctx) {
      const keeping = { now: now(), ttl: accountLifetime };
      const changed = await change(store, ctx.params.id ?? '', keeping);
      if (!changed) throw unknownAccount();
      await auditChange(store, `account_${name}d`, changed, keeping.now);
      ctx.body = accountDocument(changed.account);
    });
  }
}

async function auditChange(
  store: Store,
  event: string,
  { account, first }: AccountChange,
  now: number,
): Promise<void> {
  if (first) await recordAudit(store, { event, account: account.id, outcome: 'done' }, now);
}

function unknownAccount(): HttpError {
  return notFound('there is no account with this id');
}
