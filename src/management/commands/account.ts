// The commands `account list`, `show`, `disable` and `enable`.
import type { Command } from 'commander';
import { disableAccount, enableAccount, listAccounts, showAccount } from '../client.ts';
import { detailsText, disabledText, enabledText, listText } from './account-text.ts';
import type { Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse account list
  $ gatehouse account disable <id>`;

const DISABLING = `
Everything the person connected stops within a minute, normally at once: calls, refreshes, codes and open streams. They cannot
connect anything until the account is enabled again; what they connected before stays over, so they connect it anew.
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
}
