// The commands `grant list`, `show`, `why` and `revoke`.
import { type Command, Option } from 'commander';
import { CONNECTION_STATES } from '../../connections/connection.ts';
import { listGrants, revokeGrant, showGrant, type WantedGrants } from '../api/client.ts';
import { detailsText, listText, revokedText, whyText } from './grant-text.ts';
import type { Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse grant list
  $ gatehouse grant list --connector <id> --state active
  $ gatehouse grant why <id>
  $ gatehouse grant revoke <id>`;

const ID = 'the id in the list of grants, or grantId in the audit log';

export function addGrantCommands(program: Command, { findAccess, print }: Terminal): void {
  const grant = program
    .command('grant')
    .description('see who connected which app with which connect link, why it ended, and end it')
    .addHelpText('after', EXAMPLES);
  grant
    .command('list')
    .description('list the grants of a connector, an account or a client, or all, the oldest first')
    .option('--connector <id>', 'only those on this connector')
    .option('--account <id>', 'only those of this person')
    .option('--client <id>', 'only those of this app')
    .addOption(new Option('--state <state>', 'only those in this state').choices(CONNECTION_STATES))
    .addHelpText('after', EXAMPLES)
    .action(async (wanted: WantedGrants) => {
      print({ items: await Array.fromAsync(listGrants(findAccess(), wanted)) }, listText);
    });
  grant
    .command('show')
    .description('show one grant')
    .argument('<id>', ID)
    .action(async (id: string) => {
      print(await showGrant(findAccess(), id), detailsText);
    });
  grant
    .command('why')
    .description('say why a grant ended or is refused; what ended is remembered for 30 days')
    .argument('<id>', ID)
    .action(async (id: string) => {
      print(await showGrant(findAccess(), id), whyText);
    });
  grant
    .command('revoke')
    .description('end a grant: the app is disconnected at once')
    .argument('<id>', ID)
    .action(async (id: string) => {
      print(await revokeGrant(findAccess(), id), revokedText);
    });
}
