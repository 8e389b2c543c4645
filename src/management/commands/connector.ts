import { type Command, Option } from 'commander';
import { claudeCommand } from '../../connectors/app-instructions.ts';
import { type Level, LEVELS } from '../../permission-level.ts';
import { allItems } from '../api/client.ts';
import type { ConnectorResource } from '../api/resources.ts';
import {
  expiryMembers,
  parseCount,
  parseTime,
  type RelativeOrAbsoluteTime,
} from './option-values.ts';
import { details, minute, plain, table, type Terminal, upstreamColumn } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse connector create --name "Ops" --level operations
  $ gatehouse connector create --name "Auditors" --level analytics --max-uses 5 --expires 30d
  $ gatehouse connector create --name "Front desk" --level admin --suggest operations`;

const DELETE_HELP = `
People who use a revoked link are told that it was revoked and to ask for a new one. A deleted link is unknown. The id is never
used again. A connector that still works is not deleted, unless --yes revokes it first.`;

const ID = 'connector id: the 22 characters in the connect link';

type CreateOptions = {
  name: string;
  level: Level;
  suggest?: Level;
  upstream?: string;
  maxUses?: number;
  expires?: RelativeOrAbsoluteTime;
};

export function addConnectorCommands(program: Command, { openClient, print }: Terminal): void {
  const connector = program
    .command('connector')
    .description(
      'create, list, revoke and delete connectors: the links people add to their AI apps',
    )
    .addHelpText('after', EXAMPLES);
  connector
    .command('create')
    .description('create a connector and print its connect link')
    .requiredOption('--name <name>', 'the name people see on the consent page')
    .addOption(
      new Option('--level <level>', 'the highest level granted through this connector')
        .choices(LEVELS)
        .makeOptionMandatory(),
    )
    .addOption(
      new Option('--suggest <level>', 'a lower level for the consent page to preselect').choices(
        LEVELS,
      ),
    )
    .option('--upstream <id>', 'the MCP server it leads to, by default the first in the settings')
    .option('--max-uses <number>', 'how many times an app can be connected', parseCount)
    .option('--expires <when>', 'after 90s, 15m, 12h or 30d, or at an ISO 8601 time', parseTime)
    .addHelpText('after', EXAMPLES)
    .action(async ({ expires, suggest, ...options }: CreateOptions) => {
      const suggestion = suggest === undefined ? {} : { suggestedLevel: suggest };
      const body = { ...options, ...suggestion, ...expiryMembers(expires) };
      print(await openClient().createConnector({ body }), createdText);
    });
  connector
    .command('list')
    .description('list all connectors, oldest first')
    .action(async () => {
      const client = openClient();
      const items = await Array.fromAsync(allItems((query) => client.listConnectors({ query })));
      print({ items }, listText);
    });
  connector
    .command('show')
    .description('show one connector and its connect link')
    .argument('<id>', ID)
    .action(async (id: string) => {
      print(await openClient().showConnector({ id }), detailsText);
    });
  connector
    .command('revoke')
    .description('revoke a connector and everything granted through it')
    .argument('<id>', ID)
    .action(async (id: string) => {
      print(await openClient().revokeConnector({ id }), revokedText);
    });
  connector
    .command('delete')
    .description('delete a connector that is revoked or has expired')
    .argument('<id>', ID)
    .option('--yes', 'revoke the connector first if it still works')
    .addHelpText('after', DELETE_HELP)
    .action(async (id: string, { yes = false }: { yes?: boolean }) => {
      const client = openClient();
      if (yes) await client.revokeConnector({ id });
      print(await client.deleteConnector({ id }), deletedText);
    });
}

function createdText(connector: ConnectorResource): string {
  return `Created a connector.

${detailsText(connector)}

Add it to a client, for example:
  ${claudeCommand(connector.link, connector.name)}
`;
}

function detailsText(connector: ConnectorResource): string {
  const { id, name, level, suggestedLevel, upstream, state, link, createdAt, expiresAt } =
    connector;
  return details({
    name,
    link,
    id,
    level,
    ...(suggestedLevel === undefined ? {} : { 'suggested level': suggestedLevel }),
    ...(upstream === undefined ? {} : { upstream }),
    state,
    uses: usesText(connector),
    created: minute(createdAt),
    expires: expiresAt ? minute(expiresAt) : 'never',
  });
}

function listText({ items }: { items: ConnectorResource[] }): string {
  if (items.length === 0)
    return `There are no connectors yet. Create one:
  gatehouse connector create --name "Ops" --level operations`;
  const upstreams = upstreamColumn(items);
  const rows = items.map((connector) => {
    const { id, name, level, state, expiresAt } = connector;
    const expires = expiresAt ? minute(expiresAt) : 'never';
    return [id, name, level, ...upstreams.cells(connector), state, usesText(connector), expires];
  });
  return table(['ID', 'NAME', 'LEVEL', ...upstreams.title, 'STATE', 'USES', 'EXPIRES'], rows);
}

function usesText({ uses, maxUses }: ConnectorResource): string {
  return maxUses === undefined ? String(uses) : `${uses} of ${maxUses}`;
}

function revokedText({ name, id }: ConnectorResource): string {
  return `Revoked "${plain(name)}" (${id}). Its link and everything granted through it stop working.`;
}

function deletedText({ name, id }: ConnectorResource): string {
  return `Deleted "${plain(name)}" (${id}). Its link is unknown now, and the id is never used again.`;
}
