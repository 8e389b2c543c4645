// Accounts as people read them in a terminal.
import type { AccountDocument, ForgottenAccountDocument } from '../documents.ts';
import { minute, plain, table } from './terminal.ts';

const NONE = 'Nobody has signed in yet.';

export function listText({ items }: { items: AccountDocument[] }): string {
  if (items.length === 0) return NONE;
  const rows = items.map(({ id, name, email, emailVerified, signedInAt, disabledAt }) => [
    id,
    name,
    emailText({ email, emailVerified }),
    minute(signedInAt),
    disabledAt ? minute(disabledAt) : '-',
  ]);
  return table(['ID', 'NAME', 'E-MAIL', 'LAST SIGN-IN', 'DISABLED'], rows);
}

function emailText({ email, emailVerified }: Pick<AccountDocument, 'email' | 'emailVerified'>) {
  if (email === undefined) return '-';
  return emailVerified ? email : `${email} (not verified)`;
}

export function detailsText(account: AccountDocument): string {
  const { id, name, identityProvider, subject, signedInAt, disabledAt, forgottenAt } = account;
  const facts = {
    name: plain(name),
    'e-mail': plain(emailText(account)),
    id,
    'identity provider': plain(identityProvider) || '-',
    subject: plain(subject) || '-',
    'last sign-in': minute(signedInAt),
    disabled: disabledAt ? `since ${minute(disabledAt)}` : 'no',
    ...(forgottenAt ? { forgotten: `since ${minute(forgottenAt)}` } : {}),
  };
  return Object.entries(facts)
    .map(([label, fact]) => `  ${label.padEnd(19)}${fact}`)
    .join('\n');
}

export function disabledText({ name, id }: AccountDocument): string {
  return `Disabled ${plain(name)} (${id}). Nothing they connected works any more. To let them in again:
  gatehouse account enable ${id}`;
}

export function enabledText({ name, id }: AccountDocument): string {
  return `Enabled ${plain(name)} (${id}). They may sign in and connect again; what they connected before stays over.`;
}

export function forgottenText({ id, isDisabled, endedGrants }: ForgottenAccountDocument): string {
  const grants = endedGrants === 1 ? '1 connection' : `${endedGrants} connections`;
  const next = isDisabled ? 'They stay disabled.' : 'They may sign in again, as somebody new.';
  return `Forgot who ${id} was, and ended ${grants}. ${next}`;
}
