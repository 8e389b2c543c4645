// The commands `client list`, `show`, `revoke` and `allow`.
import type { Command } from 'commander';
import { allowClient, listClients, revokeClient, showClient } from '../api/client.ts';
import { allowedText, detailsText, listText, revokedText } from './client-text.ts';
import type { Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse client list
  $ gatehouse client revoke https://app.example.com/client.json
  $ gatehouse client allow https://app.example.com/client.json`;

const REVOKING = `
All grants of the app end at once, whoever made them, and nobody can connect it again until it is allowed. An app that
registers itself can register anew and is another one then: revoke the connect link when the link is what leaked.
${EXAMPLES}`;

const ID = 'the client id: as in the list of clients, which may be a URL';

export function addClientCommands(program: Command, { findAccess, print }: Terminal): void {
  const client = program
    .command('client')
    .description('see the apps that people connected, keep one out, allow it again')
    .addHelpText('after', EXAMPLES);
  client
    .command('list')
    .description('list the apps that somebody connected, and those that are revoked')
    .action(async () => {
      print({ items: await Array.fromAsync(listClients(findAccess())) }, listText);
    });
  client
    .command('show')
    .description('show one app')
    .argument('<id>', ID)
    .action(async (id: string) => {
      print(await showClient(findAccess(), id), detailsText);
    });
  client
    .command('revoke')
    .description('end all grants of an app, and refuse it from now on')
    .argument('<id>', ID)
    .addHelpText('after', REVOKING)
    .action(async (id: string) => {
      print(await revokeClient(findAccess(), id), revokedText);
    });
  client
    .command('allow')
    .description('let people connect an app again that was revoked; what they had stays ended')
    .argument('<id>', ID)
    .action(async (id: string) => {
      print(await allowClient(findAccess(), id), allowedText);
    });
}
