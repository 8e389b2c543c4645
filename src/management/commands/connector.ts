import type { Command } from 'commander';
import { claudeCommand } from '../../connectors/app-instructions.ts';
import { AUDIENCE_FORMS, audienceText } from '../../connectors/audience.ts';
import type { AudienceRule } from '../../settings/entitlements.ts';
import { allItems } from '../api/client.ts';
import type { ConnectorResource } from '../api/resources.ts';
import {
  expiryMembers,
  parseAudience,
  parseCount,
  parseTime,
  type RelativeOrAbsoluteTime,
  SEARCH_FLAG,
  searchHelp,
  type SearchOptions,
} from './option-values.ts';
import { type UpstreamColumn, upstreamColumn } from './record-names.ts';
import {
  CONNECTOR,
  resolveConnector,
  UPSTREAM_FLAG,
  UPSTREAM_OPTION,
  upstreamMember,
} from './resolve.ts';
import { details, foundText, minute, plain, table, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse connector create --name "Ops" --level operations
  $ gatehouse connector create --name "Auditors" --level analytics --max-uses 5 --expires 30d
  $ gatehouse connector create --name "Front desk" --level admin --suggest operations
  $ gatehouse connector create --name "Analysts" --level analytics --for group:analysts --for email:ada@example.com`;

const DELETE_HELP = `
A revoked link tells people to ask for a new one. A deleted link is not found, and its id is never reused.`;

type CreateOptions = {
  name: string;
  level: string;
  suggest?: string;
  upstream?: string;
  for?: AudienceRule[];
  maxUses?: number;
  expires?: RelativeOrAbsoluteTime;
};

export function addConnectorCommands(program: Command, { openClient, print }: Terminal): void {
  const connector = program
    .command('connector')
    .description(
      'create, list, revoke and delete connectors: links that people add to their AI apps',
    )
    .addHelpText('after', EXAMPLES);
  connector
    .command('create')
    .description('create a connector and print its connect link')
    .requiredOption('--name <name>', 'name on the consent page')
    .requiredOption('--level <level>', 'highest level that people can grant')
    .option('--suggest <level>', 'lower level that the consent page preselects')
    .option(UPSTREAM_FLAG, UPSTREAM_OPTION)
    .option(
      '--for <who>',
      `who may use it: ${AUDIENCE_FORMS}; repeatable (default: everyone)`,
      parseAudience,
    )
    .option(
      '--max-uses <number>',
      'maximum uses; one person with one app is one use (default: no limit)',
      parseCount,
    )
    .option(
      '--expires <when>',
      'expires after 90s, 15m, 12h or 30d, or at an ISO 8601 time',
      parseTime,
    )
    .addHelpText('after', EXAMPLES)
    .action(async ({ expires, suggest, for: audience, upstream, ...options }: CreateOptions) => {
      const client = openClient();
      const suggestion = suggest === undefined ? {} : { suggestedLevel: suggest };
      const limit = audience === undefined ? {} : { audience };
      const target = await upstreamMember(client, upstream);
      const body = { ...options, ...target, ...suggestion, ...limit, ...expiryMembers(expires) };
      print(await client.createConnector({ body }), createdText);
    });
  connector
    .command('list')
    .description('list all connectors, oldest first')
    .option(SEARCH_FLAG, searchHelp('its name, id or link'))
    .action(async ({ search }: SearchOptions) => {
      const client = openClient();
      const read = (query: object) => client.listConnectors({ query: { ...query, q: search } });
      const items = await Array.fromAsync(allItems(read));
      const upstreams = await upstreamColumn(client, items);
      print(
        { items },
        foundText(search, (list) => listText(list, upstreams)),
      );
    });
  connector
    .command('show')
    .description('show one connector and its connect link')
    .argument('<connector>', CONNECTOR)
    .action(async (text: string) => {
      const client = openClient();
      const id = await resolveConnector(client, text);
      print(await client.showConnector({ id }), detailsText);
    });
  connector
    .command('revoke')
    .description('revoke a connector and end all connections through it')
    .argument('<connector>', CONNECTOR)
    .action(async (text: string) => {
      const client = openClient();
      const id = await resolveConnector(client, text);
      print(await client.revokeConnector({ id }), revokedText);
    });
  connector
    .command('delete')
    .description('delete a revoked or expired connector')
    .argument('<connector>', CONNECTOR)
    .option('--yes', 'revoke the connector first if it is active')
    .addHelpText('after', DELETE_HELP)
    .action(async (text: string, { yes = false }: { yes?: boolean }) => {
      const client = openClient();
      const id = await resolveConnector(client, text);
      if (yes) await client.revokeConnector({ id });
      print(await client.deleteConnector({ id }), deletedText);
    });
}

function createdText(connector: ConnectorResource): string {
  return `Created a connector.

${detailsText(connector)}

Add it to an app, for example:
  ${claudeCommand(connector.link, connector.name)}
`;
}

function detailsText(connector: ConnectorResource): string {
  const { id, name, level, suggestedLevel, upstream, audience } = connector;
  const { state, link, createdAt, expiresAt } = connector;
  return details({
    name,
    link,
    id,
    level,
    ...(suggestedLevel === undefined ? {} : { 'suggested level': suggestedLevel }),
    ...(upstream === undefined ? {} : { upstream }),
    for: audience ? audience.map(audienceText).join(' ') : 'everybody',
    state,
    uses: usesText(connector),
    created: minute(createdAt),
    expires: expiresAt ? minute(expiresAt) : 'never',
  });
}

function listText({ items }: { items: ConnectorResource[] }, upstreams: UpstreamColumn): string {
  if (items.length === 0)
    return `There are no connectors. To create one:
  gatehouse connector create --name "Ops" --level operations`;
  const audiences = audienceColumn(items);
  const rows = items.map((connector) => {
    const { id, name, level, state, expiresAt, link } = connector;
    const expires = expiresAt ? minute(expiresAt) : 'never';
    const optional = [...upstreams.cells(connector), ...audiences.cells(connector)];
    return [id, name, level, ...optional, state, usesText(connector), expires, link];
  });
  const optional = [...upstreams.title, ...audiences.title];
  return table(['ID', 'NAME', 'LEVEL', ...optional, 'STATE', 'USES', 'EXPIRES', 'LINK'], rows);
}

/** The column with the people of each connector, if any is for some people only. */
function audienceColumn(items: readonly ConnectorResource[]) {
  const isNeeded = items.some(({ audience }) => audience !== undefined);
  return {
    title: isNeeded ? ['FOR'] : [],
    cells: (connector: ConnectorResource) => (isNeeded ? [listedAudience(connector)] : []),
  };
}

/** The first rule, and how many others there are. */
function listedAudience({ audience }: ConnectorResource): string {
  if (!audience?.[0]) return 'everybody';
  const others = audience.length - 1;
  return others === 0 ? audienceText(audience[0]) : `${audienceText(audience[0])} +${others}`;
}

function usesText({ uses, maxUses }: ConnectorResource): string {
  return maxUses === undefined ? String(uses) : `${uses} of ${maxUses}`;
}

function revokedText({ name, id }: ConnectorResource): string {
  return `Revoked "${plain(name)}" (${id}). Its link no longer works, and all connections through it ended.`;
}

function deletedText({ name, id }: ConnectorResource): string {
  return `Deleted "${plain(name)}" (${id}). Its id is never reused.`;
}
