import type { Command } from 'commander';
import { allItems, ManagementError } from '../api/client.ts';
import type { ClientResource, RevokedClientResource } from '../api/resources.ts';
import { CLIENT, resolveClient } from './resolve.ts';
import { details, minute, plain, quoted, table, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse client list
  $ gatehouse client revoke https://app.example.com/client.json
  $ gatehouse client allow https://app.example.com/client.json`;

const REVOKE_HELP = `
All grants of the app end at once, for every person, and nobody can connect it until it is allowed again. An app that
registers itself can register again under a new id. If a connect link leaked, revoke the connector instead.
${EXAMPLES}`;

export function addClientCommands(program: Command, { openClient, print }: Terminal): void {
  const client = program
    .command('client')
    .description('list, revoke and allow the apps that people connect')
    .addHelpText('after', EXAMPLES);
  client
    .command('list')
    .description('list the apps that have been connected or are revoked')
    .action(async () => {
      const api = openClient();
      print(
        { items: await Array.fromAsync(allItems((query) => api.listClients({ query }))) },
        listText,
      );
    });
  client
    .command('show')
    .description('show one app')
    .argument('<client>', CLIENT)
    .action(async (text: string) => {
      const api = openClient();
      const id = await resolveClient(api, text);
      const { items } = await api.listClients({ query: { id } });
      const [found] = items;
      if (!found) throw new ManagementError('not_found', 'there is no client with this id');
      print(found, detailsText);
    });
  client
    .command('revoke')
    .description('end all grants of an app and refuse it until it is allowed again')
    .argument('<client>', CLIENT)
    .addHelpText('after', REVOKE_HELP)
    .action(async (text: string) => {
      const api = openClient();
      const id = await resolveClient(api, text);
      print(await api.revokeClient({ body: { id } }), revokedText);
    });
  client
    .command('allow')
    .description('let people connect a revoked app again; earlier grants are not restored')
    .argument('<client>', CLIENT)
    .action(async (text: string) => {
      const api = openClient();
      const id = await resolveClient(api, text);
      print(await api.allowClient({ body: { id } }), allowedText);
    });
}

function listText({ items }: { items: ClientResource[] }): string {
  if (items.length === 0) return 'Nobody has connected an app yet.';
  const rows = items.map(({ id, name, kind, lastUsedAt, state }) => [
    id,
    name ?? '-',
    kind,
    lastUsedAt ? minute(lastUsedAt) : '-',
    state,
  ]);
  return table(['ID', 'NAME', 'KIND', 'LAST USED', 'STATE'], rows);
}

function detailsText(client: ClientResource): string {
  const { id, name, kind, redirectUris, lastUsedAt, revokedAt } = client;
  return details({
    name: name ?? 'unknown',
    id,
    kind,
    'redirect URIs': redirectUris.join(' ') || '-',
    'last used': lastUsedAt ? minute(lastUsedAt) : '-',
    revoked: revokedAt ? `since ${minute(revokedAt)}` : 'no',
  });
}

function revokedText({ id, name, endedGrants }: RevokedClientResource): string {
  const ended = endedGrants === 1 ? '1 grant was ended' : `${endedGrants} grants were ended`;
  return `Revoked ${plain(name ?? id)} (${plain(id)}): ${ended}, and nobody can connect it. To allow it again:
  gatehouse client allow ${quoted(id)}`;
}

function allowedText({ id, name }: ClientResource): string {
  return `Allowed ${plain(name ?? id)} (${plain(id)}). People can connect it again. Earlier grants are not restored.`;
}
