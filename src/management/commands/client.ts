import { type Command, Option } from 'commander';
import { CLIENT_STATES, type ClientState } from '../../clients/clients.ts';
import { destinationsOf } from '../../clients/rules.ts';
import { allItems } from '../api/client.ts';
import { ManagementError } from '../api/management-error.ts';
import {
  type BlockResource,
  type ClientResource,
  type ClientRuleResource,
  lastWaitingFirst,
  type RevokedClientResource,
} from '../api/resources.ts';
import { SEARCH_FLAG, searchHelp, type SearchOptions } from './option-values.ts';
import { addMachineCommands } from './machine.ts';
import { CLIENT, resolveClient } from './resolve.ts';
import { details, foundText, minute, plain, quoted, table, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse client list
  $ gatehouse client revoke https://app.example.com/client.json
  $ gatehouse client allow https://app.example.com/client.json`;

const REVOKE_HELP = `
Ends all grants of the app immediately. Nobody can connect the app until you allow it again. To stop an app from registering
again under a new id, use gatehouse client block. If a connect link leaked, revoke the connector instead.
${EXAMPLES}`;

const ALLOW_HELP = `
Without --app, allows only this registration or metadata document. If its name or redirect URIs change, the app waits again.

Use --app for apps that register anew for each connection. Names are not verified: if the app redirects only to the
person's computer, any program there can register the same name.
${EXAMPLES}`;

const BLOCK_HELP = `
Ends all grants of matching apps. Name matching ignores case, spaces, punctuation and accents. An app can change its name,
so prefer --host.

Examples:
  $ gatehouse client block --host evil.example
  $ gatehouse client block --name "Evil App"
  $ gatehouse client unblock --host evil.example`;

export function addClientCommands(program: Command, terminal: Terminal): void {
  const { openClient, print } = terminal;
  const client = program
    .command('client')
    .description('list, allow, revoke and block apps (clients), and create machines')
    .addHelpText('after', EXAMPLES);
  client
    .command('list')
    .description('list connected, waiting, allowed and revoked apps')
    .addOption(new Option('--state <state>', 'only apps in this state').choices(CLIENT_STATES))
    .option(SEARCH_FLAG, searchHelp('its name, id or redirect URIs'))
    .action(async ({ state, search }: { state?: ClientState } & SearchOptions) => {
      const api = openClient();
      const read = (query: object) => api.listClients({ query: { ...query, state, q: search } });
      const text = (list: { items: ClientResource[] }) => listText(list, state);
      print({ items: await Array.fromAsync(allItems(read)) }, foundText(search, text));
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
    .description('end all grants of an app and prevent new ones')
    .argument('<client>', CLIENT)
    .addHelpText('after', REVOKE_HELP)
    .action(async (text: string) => {
      const api = openClient();
      const id = await resolveClient(api, text);
      print(await api.revokeClient({ body: { id } }), revokedText);
    });
  client
    .command('allow')
    .description('allow a waiting or revoked app; ended grants are not restored')
    .argument('<client>', CLIENT)
    .option('--app', 'also allow later registrations with the same name and redirect hosts')
    .addHelpText('after', ALLOW_HELP)
    .action(async (text: string, { app }: { app?: true }) => {
      const api = openClient();
      const id = await resolveClient(api, text);
      print(await api.allowClient({ body: { id, app } }), (allowed) => allowedText(allowed, app));
    });
  addMachineCommands(client, terminal);
  addRuleCommands(client, openClient, print);
}

type Subject = { host?: string; name?: string };

function addRuleCommands(
  client: Command,
  openClient: Terminal['openClient'],
  print: Terminal['print'],
): void {
  client
    .command('rules')
    .description('list the rules that block or allow apps')
    .action(async () => print(await openClient().listClientRules(), rulesText));
  client
    .command('block')
    .description('block current and future apps with this host or name')
    .option('--host <host>', 'host of redirect URIs or metadata documents, including subdomains')
    .option('--name <name>', 'name of the app')
    .addHelpText('after', BLOCK_HELP)
    .action(async (subject: Subject) =>
      print(await openClient().blockClients({ body: subject }), blockedText),
    );
  client
    .command('unblock')
    .description('unblock a host or name; ended grants are not restored')
    .option('--host <host>', 'blocked host')
    .option('--name <name>', 'blocked name')
    .action(async ({ host, name }: Subject) => {
      const api = openClient();
      const { items } = await api.listClientRules();
      const rule = items.find(
        (each) => each.effect === 'block' && each.host === host && each.name === name,
      );
      if (!rule)
        throw new ManagementError(
          'not_found',
          'this host or name is not blocked: see gatehouse client rules',
        );
      print(await api.removeClientRule({ id: rule.id }), removedText);
    });
  client
    .command('remove-rule')
    .description('remove a rule; apps that people have connected stay allowed')
    .argument('<id>', 'id of a rule, see gatehouse client rules')
    .action(async (id: string) => print(await openClient().removeClientRule({ id }), removedText));
}

function rulesText({ items }: { items: ClientRuleResource[] }): string {
  if (items.length === 0) return 'There are no rules.';
  const rows = items.map((rule) => [
    rule.id,
    rule.effect,
    ruleText(rule),
    minute(rule.createdAt),
    rule.by ?? '-',
  ]);
  return table(['ID', 'EFFECT', 'WHAT', 'SINCE', 'BY'], rows);
}

function ruleText({ host, name = '', destinations }: ClientRuleResource): string {
  if (host !== undefined) return `host ${host}`;
  return `name ${quoted(name)}${destinations ? ` with ${destinations.join(', ')}` : ''}`;
}

function blockedText({ endedGrants, ...rule }: BlockResource): string {
  return `Blocked the ${plain(ruleText(rule))} and ended ${grants(endedGrants)}. Matching apps cannot register or be connected.`;
}

function removedText(rule: ClientRuleResource): string {
  const did = rule.effect === 'block' ? 'blocked' : 'allowed';
  return `Removed the rule that ${did} the ${plain(ruleText(rule))}.`;
}

function grants(count: number): string {
  return count === 1 ? '1 grant' : `${count} grants`;
}

function listText({ items }: { items: ClientResource[] }, state?: ClientState): string {
  if (items.length === 0)
    return state ? `There are no ${state} apps.` : 'Nobody has connected an app yet.';
  const rows = lastWaitingFirst(items).map((client) => [
    client.id,
    client.name ?? '-',
    client.kind,
    client.lastUsedAt ? minute(client.lastUsedAt) : '-',
    client.waitingSince ? `${client.state} since ${minute(client.waitingSince)}` : client.state,
    hostsText(client),
  ]);
  return table(['ID', 'NAME', 'KIND', 'LAST USED', 'STATE', 'REDIRECT HOSTS'], rows);
}

function detailsText(client: ClientResource): string {
  const { id, name, kind, state, redirectUris, lastUsedAt, revokedAt } = client;
  return details({
    name: name ?? 'unknown',
    id,
    kind,
    state,
    'redirect URIs': redirectUris.join(' ') || '-',
    'last used': lastUsedAt ? minute(lastUsedAt) : '-',
    revoked: revokedAt ? `since ${minute(revokedAt)}` : 'no',
  });
}

function revokedText({ id, name, kind, endedGrants }: RevokedClientResource): string {
  const did = `Revoked ${plain(name ?? id)} (${plain(id)}) and ended ${grants(endedGrants)}.`;
  if (kind === 'machine')
    return `${did} It can no longer get tokens. To replace it, create a new machine.`;
  return `${did} Nobody can connect it. To allow it again:
  gatehouse client allow ${quoted(id)}`;
}

function allowedText(client: ClientResource, app?: true): string {
  const { id, name, kind } = client;
  const hosts = hostsText(client);
  const rule = `\nLater registrations with the name ${quoted(name ?? id)} and no other redirect hosts are allowed too.`;
  return `Allowed ${plain(name ?? id)} (${plain(id)}) with the redirect hosts ${plain(hosts)}. People can connect it. Earlier grants are not restored.${app && kind === 'self-registered' ? rule : ''}`;
}

/** All of them: the last one may be the one that matters. */
function hostsText({ redirectUris, usesDevice }: ClientResource): string {
  return destinationsOf({ redirectUris, usesDevice }).join(', ') || '-';
}
