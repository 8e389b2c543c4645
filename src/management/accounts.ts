import { type Account as Stored, accountLifetime, verifiedEmailOf } from '../people/account.ts';
import { DISABLED, setsFor } from '../people/account-index.ts';
import {
  disableAccount,
  enableAccount,
  findAccount,
  forgetAccount,
  isGone,
  listAccounts,
} from '../people/accounts.ts';
import { forgetVisits } from '../people/visits.ts';
import { recordChange } from '../audit/recorded-change.ts';
import { beginForgetting, forgetInAudit } from '../audit/chain/forget.ts';
import { forgetAttempts } from '../connections/attempts.ts';
import { limitsOfPerson, readUsage } from '../connections/call-limits.ts';
import { endConnections } from '../connections/connections.ts';
import { listKeptOut } from '../connections/kept-out.ts';
import { keptOutResource } from './grants.ts';
import { type HttpError, notFound } from '../http/errors.ts';
import type { Handlers, ManagementContext } from './context.ts';
import { accessOfPerson, sourceOf } from './access.ts';
import { isoTime, represent } from './represent.ts';
import {
  type Account,
  type AccountDetails,
  type accountOperations,
  accountSchema,
} from './resources/account.ts';
import { type CallLimits, representLimits } from './resources/call-limit.ts';
import { findById, GLANCE_SHARE, type Listed, scanPage, searchFor, untilFound } from './search.ts';

export const accountHandlers: Handlers<Exclude<keyof typeof accountOperations, 'exportAccount'>> = {
  async listAccounts(management, { query: { limit, after, q, state } }) {
    const known = await findById(management, q, (id) => findAccount(management.services.store, id));
    if (known && !isGone(known)) return { items: [resource(known)] };
    const found = searchFor(q);
    const sets = [...(state === 'disabled' ? [DISABLED] : []), ...setsFor(q ?? '')];
    const hasState = ({ disabledAt }: Stored) =>
      state === undefined || (state === 'disabled') === (disabledAt !== undefined);
    const { matches, isEnough, wasCut } = untilFound(
      management,
      (account: Stored) =>
        hasState(account) &&
        found([account.name, verifiedEmailOf(account), account.id, account.issuer]),
    );
    const accounts = listed(management, { after, sets, isEnough });
    const { items, next } = await scanPage(accounts, matches, { limit, wasCut });
    return { items: items.map(resource), next };
  },

  async showAccount(management, { id }) {
    const account = await findAccount(management.services.store, id);
    if (!account || isGone(account)) throw unknownAccount();
    const isForgotten = account.forgottenAt !== undefined;
    return {
      ...resource(account),
      ...(isForgotten ? {} : { claims: claimsResource(management, account) }),
      access: isForgotten ? [] : await accessOfPerson(management, account),
      limits: isForgotten ? [] : await usageOf(management, id),
      keptOut: (await listKeptOut(management.services.store, id)).map(keptOutResource),
    };
  },

  disableAccount: (management, { id }) =>
    change(management, id, disableAccount, 'account_disabled').then(resource),

  enableAccount: (management, { id }) =>
    change(management, id, enableAccount, 'account_enabled').then(resource),

  /** Idempotent. A grant approved between the two steps is invalid too: forgetting invalidates all earlier grants. */
  async forgetAccount(management, { id }) {
    const { settings, services, by } = management;
    if (!(await findAccount(services.store, id))) throw unknownAccount();
    const reason = 'account_deleted';
    const endedGrants = await endConnections(settings, services, { account: id }, reason, by);
    await beginForgetting(services, id);
    const account = await change(management, id, forgetAccount, 'account_forgotten');
    await forgetAttempts(services.store, id);
    await forgetVisits(services.store, id);
    await forgetInAudit(services.store, id);
    return { id, isDisabled: account.disabledAt !== undefined, endedGrants };
  },
};

async function usageOf(
  { settings, services: { store, now } }: ManagementContext,
  id: string,
): Promise<CallLimits> {
  const used = await readUsage(store.callWindows, limitsOfPerson(settings, id));
  return representLimits(used, now());
}

/** At a glance, few are read of those that are not in the index. */
async function* listed(
  { services: { store }, isGlance }: ManagementContext,
  range: Parameters<typeof listAccounts>[1],
): AsyncGenerator<Listed<Stored | undefined>> {
  for await (const { account, cursor, isIndexed } of listAccounts(store, range))
    yield { item: account, cursor, ...(isGlance && !isIndexed ? { cost: 1 / GLANCE_SHARE } : {}) };
}

/** Records the event for the one call that changed the account. */
async function change(
  { settings, services, by }: ManagementContext,
  id: string,
  apply: typeof disableAccount,
  event: string,
): Promise<Stored> {
  const times = { now: services.now(), ttl: accountLifetime(settings) };
  const item = { event, account: id, by };
  const changed = await recordChange(services, item, {
    make: () => apply(services.store, id, times),
    itemOf: (made) => (made?.first ? item : undefined),
  });
  if (!changed) throw unknownAccount();
  return changed.account;
}

function resource(account: Stored): Account {
  const { id, name, email, emailVerified, issuer } = account;
  return represent(accountSchema, {
    ...account,
    name: name || id,
    emailVerified: email === undefined ? undefined : emailVerified,
    identityProvider: issuer,
  });
}

function claimsResource(management: ManagementContext, account: Stored): AccountDetails['claims'] {
  const { name, email, emailVerified, groups, groupsOmitted, issuer, signedInAt } = account;
  return {
    name,
    ...(email === undefined ? {} : { email, emailVerified }),
    groups,
    ...(groupsOmitted ? { groupsOmitted } : {}),
    provider: sourceOf(management, account)?.id ?? issuer,
    time: isoTime(Math.max(signedInAt, account.recheck?.answeredAt ?? 0)),
  };
}

function unknownAccount(): HttpError {
  return notFound('there is no account with this id');
}
