import { type Command, Option } from 'commander';
import { CLIENT_STATES, type ClientState } from '../../clients/clients.ts';
import { destinationsOf } from '../../clients/rules.ts';
import { allItems, ManagementError } from '../api/client.ts';
import type {
  BlockResource,
  ClientResource,
  ClientRuleResource,
  RevokedClientResource,
} from '../api/resources.ts';
import { CLIENT, resolveClient } from './resolve.ts';
import { details, minute, plain, quoted, table, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse client list
  $ gatehouse client revoke https://app.example.com/client.json
  $ gatehouse client allow https://app.example.com/client.json`;

const REVOKE_HELP = `
All grants of the app end at once, for every person, and nobody can connect it until it is allowed again. An app that
registers itself can register again under a new id: gatehouse client block prevents it. If a connect link leaked,
revoke the connector instead.
${EXAMPLES}`;

const ALLOW_HELP = `
Without --app, this allows one registration, or one metadata document with its present name and redirect URIs: it waits
again when they change. Many apps register anew each time; --app also
allows later registrations with the same name and no other redirect hosts. A name is only a claim: every program on a
person's computer can register the name of an app whose redirect URIs are on that computer.
${EXAMPLES}`;

const BLOCK_HELP = `
Registration of the apps is refused, their grants end with the reason client_blocked, and nobody can connect them. A name
is compared without case, blanks, punctuation and accents. An app can register another name, so block its host if it has one.

Examples:
  $ gatehouse client block --host evil.example
  $ gatehouse client block --name "Evil App"
  $ gatehouse client unblock --host evil.example`;

export function addClientCommands(program: Command, { openClient, print }: Terminal): void {
  const client = program
    .command('client')
    .description('list, allow, revoke and block the apps that people connect')
    .addHelpText('after', EXAMPLES);
  client
    .command('list')
    .description('list the apps that have been connected, wait to be allowed or are revoked')
    .addOption(
      new Option('--state <state>', 'list only those in this state').choices(CLIENT_STATES),
    )
    .action(async ({ state }: { state?: ClientState }) => {
      const api = openClient();
      const read = (query: object) => api.listClients({ query: { ...query, state } });
      print({ items: await Array.fromAsync(allItems(read)) }, (list) => listText(list, state));
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
    .description('let people connect an app that waits or is revoked; grants are not restored')
    .argument('<client>', CLIENT)
    .option('--app', 'also allow later registrations with its name and redirect hosts')
    .addHelpText('after', ALLOW_HELP)
    .action(async (text: string, { app }: { app?: true }) => {
      const api = openClient();
      const id = await resolveClient(api, text);
      print(await api.allowClient({ body: { id, app } }), (allowed) => allowedText(allowed, app));
    });
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
    .description('list blocked hosts and names, and apps that are allowed whatever they register')
    .action(async () => print(await openClient().listClientRules(), rulesText));
  client
    .command('block')
    .description('block a host or a name, whatever registers later')
    .option('--host <host>', 'host of redirect URIs or metadata documents, with its subdomains')
    .option('--name <name>', 'name of an app, which is only a claim')
    .addHelpText('after', BLOCK_HELP)
    .action(async (subject: Subject) =>
      print(await openClient().blockClients({ body: subject }), blockedText),
    );
  client
    .command('unblock')
    .description('remove the block of a host or a name; earlier grants are not restored')
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
          'nothing like this is blocked: see gatehouse client rules',
        );
      print(await api.removeClientRule({ id: rule.id }), removedText);
    });
  client
    .command('remove-rule')
    .description('remove a rule; clients that were connected stay allowed, see client revoke')
    .argument('<id>', 'id of a rule, see gatehouse client rules')
    .action(async (id: string) => print(await openClient().removeClientRule({ id }), removedText));
}

function rulesText({ items }: { items: ClientRuleResource[] }): string {
  if (items.length === 0) return 'No host or name is blocked, and no app is allowed by a rule.';
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
  const ended = endedGrants === 1 ? '1 grant was ended' : `${endedGrants} grants were ended`;
  return `Blocked the ${plain(ruleText(rule))}: ${ended}, and nothing that has it can register or be connected.`;
}

function removedText(rule: ClientRuleResource): string {
  const was = rule.effect === 'block' ? 'blocked' : 'allowed';
  return `The ${plain(ruleText(rule))} is no longer ${was} by a rule.`;
}

function listText({ items }: { items: ClientResource[] }, state?: ClientState): string {
  if (items.length === 0)
    return state ? `There are no ${state} apps.` : 'Nobody has connected an app yet.';
  const rows = items.map(({ id, name, kind, lastUsedAt, state, redirectUris }) => [
    id,
    name ?? '-',
    kind,
    lastUsedAt ? minute(lastUsedAt) : '-',
    state,
    hostsText(redirectUris),
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

function revokedText({ id, name, endedGrants }: RevokedClientResource): string {
  const ended = endedGrants === 1 ? '1 grant was ended' : `${endedGrants} grants were ended`;
  return `Revoked ${plain(name ?? id)} (${plain(id)}): ${ended}, and nobody can connect it. To allow it again:
  gatehouse client allow ${quoted(id)}`;
}

function allowedText({ id, name, kind, redirectUris }: ClientResource, app?: true): string {
  const hosts = hostsText(redirectUris);
  const rule = `\nEach app that registers with the name ${quoted(name ?? id)} and no other redirect hosts is allowed too.`;
  return `Allowed ${plain(name ?? id)} (${plain(id)}) with the redirect hosts ${plain(hosts)}. People can connect it. Ended grants are not restored.${app && kind === 'self-registered' ? rule : ''}`;
}

/** All of them: the last one may be the one that matters. */
function hostsText(redirectUris: string[]): string {
  return destinationsOf({ redirectUris }).join(', ') || '-';
}
