// The commands `account list`, `show`, `disable`, `enable` and `forget`.
import type { Command } from 'commander';
import {
  disableAccount,
  enableAccount,
  forgetAccount,
  listAccounts,
  showAccount,
} from '../api/client.ts';
import { detailsText, disabledText, enabledText, forgottenText, listText } from './account-text.ts';
import type { Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse account list
  $ gatehouse account disable <id>`;

const DISABLING = `
Everything the person connected stops within a minute, normally at once: calls, refreshes, codes and open streams. They cannot
connect anything until the account is enabled again; what they connected before stays over, so they connect it anew.
${EXAMPLES}`;

const FORGETTING = `
Everything the person connected stops, and name, address, groups and subject are removed at once. What is left is the id, from
which nobody learns who it was: with connections that ended for 30 days, and in the audit log. A person who is disabled stays so;
anybody else may sign in again, and is somebody new then.
${EXAMPLES}`;

const ID = 'the id in the list of accounts';

export function addAccountCommands(program: Command, { findAccess, print }: Terminal): void {
  const account = program
    .command('account')
    .description('see the people who signed in, cut one off, let one in again')
    .addHelpText('after', EXAMPLES);
  account
    .command('list')
    .description('list everybody who signed in, by name')
    .action(async () => {
      const items = await Array.fromAsync(listAccounts(findAccess()));
      print({ items: items.toSorted((a, b) => a.name.localeCompare(b.name)) }, listText);
    });
  account
    .command('show')
    .description('show one account')
    .argument('<id>', ID)
    .action(async (id: string) => {
      print(await showAccount(findAccess(), id), detailsText);
    });
  account
    .command('disable')
    .description('cut a person off: nothing they connected works any more, and they cannot connect')
    .argument('<id>', ID)
    .addHelpText('after', DISABLING)
    .action(async (id: string) => {
      print(await disableAccount(findAccess(), id), disabledText);
    });
  account
    .command('enable')
    .description('let a person sign in and connect again')
    .argument('<id>', ID)
    .action(async (id: string) => {
      print(await enableAccount(findAccess(), id), enabledText);
    });
  account
    .command('forget')
    .description('end all that a person connected, and remove what is known of them')
    .argument('<id>', ID)
    .addHelpText('after', FORGETTING)
    .action(async (id: string) => {
      print(await forgetAccount(findAccess(), id), forgottenText);
    });
}
