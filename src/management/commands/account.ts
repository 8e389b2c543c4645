import type { Command } from 'commander';
import { allItems } from '../api/client.ts';
import type { AccountResource, ForgottenAccountResource } from '../api/resources.ts';
import { SEARCH_FLAG, searchHelp, type SearchOptions } from './option-values.ts';
import { ACCOUNT, resolveAccount } from './resolve.ts';
import { details, foundText, minute, plain, table, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse account list --search example.com
  $ gatehouse account disable ada@example.com`;

const DISABLE_HELP = `
All connections of the person end within a minute, usually immediately. Enabling the account does not restore them.
${EXAMPLES}`;

const FORGET_HELP = `
Ends all connections of the person and deletes their name, email address, groups and subject. You cannot undo this.
Ended connections and the audit log keep only the id. A disabled account stays disabled; otherwise the person can sign in
again and gets a new account.
${EXAMPLES}`;

export function addAccountCommands(program: Command, { openClient, print }: Terminal): void {
  const account = program
    .command('account')
    .description('list, disable, enable and forget people (accounts) who have signed in')
    .addHelpText('after', EXAMPLES);
  account
    .command('list')
    .description('list people who have signed in, by name')
    .option(SEARCH_FLAG, searchHelp('the name, verified email address, id or identity provider'))
    .action(async ({ search }: SearchOptions) => {
      const client = openClient();
      const read = (query: object) => client.listAccounts({ query: { ...query, q: search } });
      const items = await Array.fromAsync(allItems(read));
      const byName = items.toSorted((a, b) => a.name.localeCompare(b.name));
      print({ items: byName }, foundText(search, listText));
    });
  account
    .command('show')
    .description('show one account')
    .argument('<account>', ACCOUNT)
    .action(async (text: string) => {
      const client = openClient();
      const id = await resolveAccount(client, text);
      print(await client.showAccount({ id }), detailsText);
    });
  account
    .command('disable')
    .description('end all connections of a person and prevent new ones')
    .argument('<account>', ACCOUNT)
    .addHelpText('after', DISABLE_HELP)
    .action(async (text: string) => {
      const client = openClient();
      const id = await resolveAccount(client, text);
      print(await client.disableAccount({ id }), disabledText);
    });
  account
    .command('enable')
    .description('let a disabled person sign in and connect again')
    .argument('<account>', ACCOUNT)
    .action(async (text: string) => {
      const client = openClient();
      const id = await resolveAccount(client, text);
      print(await client.enableAccount({ id }), enabledText);
    });
  account
    .command('forget')
    .description('end all connections of a person and delete their personal data')
    .argument('<account>', ACCOUNT)
    .addHelpText('after', FORGET_HELP)
    .action(async (text: string) => {
      const client = openClient();
      const id = await resolveAccount(client, text);
      print(await client.forgetAccount({ id }), forgottenText);
    });
}

function listText({ items }: { items: AccountResource[] }): string {
  if (items.length === 0) return 'Nobody has signed in yet.';
  const rows = items.map(({ id, name, email, emailVerified, signedInAt, disabledAt }) => [
    id,
    name,
    emailText({ email, emailVerified }),
    minute(signedInAt),
    disabledAt ? minute(disabledAt) : '-',
  ]);
  return table(['ID', 'NAME', 'EMAIL', 'LAST SIGN-IN', 'DISABLED'], rows);
}

function emailText({ email, emailVerified }: Pick<AccountResource, 'email' | 'emailVerified'>) {
  if (email === undefined) return '-';
  return emailVerified ? email : `${email} (not verified)`;
}

function detailsText(account: AccountResource): string {
  const { id, name, identityProvider, subject, signedInAt, disabledAt, forgottenAt } = account;
  return details({
    name,
    email: emailText(account),
    id,
    'identity provider': identityProvider || '-',
    subject: subject || '-',
    'last sign-in': minute(signedInAt),
    disabled: disabledAt ? `since ${minute(disabledAt)}` : 'no',
    ...(forgottenAt ? { forgotten: minute(forgottenAt) } : {}),
  });
}

function disabledText({ name, id }: AccountResource): string {
  return `Disabled ${plain(name)} (${id}). Their connections no longer work. To undo:
  gatehouse account enable ${id}`;
}

function enabledText({ name, id }: AccountResource): string {
  return `Enabled ${plain(name)} (${id}). They can sign in and connect again. Earlier connections are not restored.`;
}

function forgottenText({ id, isDisabled, endedGrants }: ForgottenAccountResource): string {
  const grants = endedGrants === 1 ? '1 connection' : `${endedGrants} connections`;
  const next = isDisabled
    ? 'The account stays disabled.'
    : 'The person can sign in again and gets a new account.';
  return `Deleted the personal data of ${id} and ended ${grants}. ${next}`;
}
