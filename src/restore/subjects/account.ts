// People who were disabled, forgotten or signed out.
import type { AuditItem } from '../../audit/audit.ts';
import { forgetInAudit } from '../../audit/chain/forget.ts';
import {
  accountLifetime,
  disabledAccount,
  enabledAccount,
  forgottenAccount,
  withSessionsEnded,
} from '../../people/account.ts';
import { addDisabledAccount, findAccount, updateAccount } from '../../people/accounts.ts';
import { type Subject, timeOf } from './subject.ts';

const idIn = ({ account }: AuditItem) => account;

/** Enabling an account leaves the connections of the time before ended. */
export const accountState: Subject = {
  idIn,
  async plan({ settings, services: { store } }, id, items) {
    const ttl = accountLifetime(settings);
    const isLast = (event: string) => items.at(-1)?.event === event;
    const disabled = items.find(({ event }) => event === 'account_disabled');
    if (!disabled) return undefined;
    const account = await findAccount(store, id);
    const at = timeOf(items.at(-1) ?? disabled);
    if (isLast('account_disabled')) {
      if (account?.disabledAt !== undefined) return undefined;
      if (!account) return () => addDisabledAccount(store, id, at);
      return async () =>
        void (await updateAccount(store, id, ttl, (one) => disabledAccount(one, at)));
    }
    if (!account || account.disabledAt !== undefined || (account.overBefore ?? 0) >= at)
      return undefined;
    return async () => void (await updateAccount(store, id, ttl, (one) => enabledAccount(one, at)));
  },
};

/** What the audit log says of the person goes too. */
export const forgottenPerson: Subject = {
  idIn,
  async plan({ settings, services: { store } }, id, items) {
    const at = timeOf(items.at(-1) ?? { time: '' });
    const account = await findAccount(store, id);
    // Somebody who has signed in again since is a new person here.
    if (!account || account.forgottenAt !== undefined || account.signedInAt > at) {
      await forgetInAudit(store, id);
      return undefined;
    }
    return async () => {
      await updateAccount(store, id, accountLifetime(settings), (one) => forgottenAccount(one, at));
      await forgetInAudit(store, id);
    };
  },
};

/** The identity provider ended sessions. Which of them is not in the log, so all of the time before end. */
export const sessions: Subject = {
  idIn,
  async plan({ settings, services: { store } }, id, items) {
    const at = timeOf(items.at(-1) ?? { time: '' });
    const account = await findAccount(store, id);
    if (!account || account.signedInAt > at || (account.sessionsOverBefore ?? 0) > at)
      return undefined;
    return async () => {
      await updateAccount(store, id, accountLifetime(settings), (one) =>
        withSessionsEnded(one, at),
      );
    };
  },
};
