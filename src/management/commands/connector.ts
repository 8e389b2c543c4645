// The commands `connector create`, `list`, `show`, `revoke` and `delete`.
import { type Command, Option } from 'commander';
import { type Level, LEVELS } from '../../permission-level.ts';
import {
  createConnector,
  deleteConnector,
  listConnectors,
  revokeConnector,
  showConnector,
  type WantedConnector,
} from '../client.ts';
import { expiryOf, parseCount, parseMoment, type Moment } from './argument.ts';
import { createdText, deletedText, detailsText, listText, revokedText } from './connector-text.ts';
import type { Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse connector create --name "Ops" --level operations
  $ gatehouse connector create --name "Auditors" --level analytics --max-uses 5 --expires 30d
  $ gatehouse connector create --name "Front desk" --level admin --suggest operations`;

export function addConnectorCommands(program: Command, terminal: Terminal): void {
  const connector = program
    .command('connector')
    .description('create, see, revoke and delete connectors: the links people add to their AI apps')
    .addHelpText('after', EXAMPLES);
  addCreate(connector, terminal);
  addList(connector, terminal);
  addShow(connector, terminal);
  addRevoke(connector, terminal);
  addDelete(connector, terminal);
}

type CreateOptions = Pick<WantedConnector, 'name' | 'level' | 'maxUses'> & {
  suggest?: Level;
  expires?: Moment;
};

function addCreate(connector: Command, { findAccess, print }: Terminal): void {
  connector
    .command('create')
    .description('create a connector and print its connect link')
    .requiredOption('--name <name>', 'what people read when they are asked for consent')
    .addOption(
      new Option('--level <level>', 'the most that anybody gets through this connector')
        .choices(LEVELS)
        .makeOptionMandatory(),
    )
    .addOption(
      new Option(
        '--suggest <level>',
        'what the consent page preselects at most, when that is less than --level',
      ).choices(LEVELS),
    )
    .option('--max-uses <number>', 'how often somebody may connect an app', parseCount)
    .option('--expires <when>', 'after 90s, 15m, 12h or 30d, or at an ISO 8601 time', parseMoment)
    .addHelpText('after', EXAMPLES)
    .action(async ({ expires, suggest, ...wanted }: CreateOptions) => {
      const created = await createConnector(findAccess(), {
        ...wanted,
        ...(suggest === undefined ? {} : { suggestedLevel: suggest }),
        ...expiryOf(expires),
      });
      print(created, createdText);
    });
}

function addList(connector: Command, { findAccess, print }: Terminal): void {
  connector
    .command('list')
    .description('list all connectors, the oldest first')
    .action(async () => {
      print({ items: await Array.fromAsync(listConnectors(findAccess())) }, listText);
    });
}

function addShow(connector: Command, { findAccess, print }: Terminal): void {
  connector
    .command('show')
    .description('show one connector and its connect link')
    .argument('<id>', 'the 22 characters in the connect link')
    .action(async (id: string) => {
      print(await showConnector(findAccess(), id), detailsText);
    });
}

function addRevoke(connector: Command, { findAccess, print }: Terminal): void {
  connector
    .command('revoke')
    .description('revoke a connector, and with it everything that was granted through it')
    .argument('<id>', 'the 22 characters in the connect link')
    .action(async (id: string) => {
      print(await revokeConnector(findAccess(), id), revokedText);
    });
}

const DELETING = `
A link that was revoked says so to whoever still has it, and asks them to get a fresh one. Once deleted it is unknown, as if it had
never been. Its id is never given out again. A connector that still works is not deleted, unless --yes says to revoke it as well.`;

function addDelete(connector: Command, { findAccess, print }: Terminal): void {
  connector
    .command('delete')
    .description('forget a connector that was revoked or has expired')
    .argument('<id>', 'the 22 characters in the connect link')
    .option('--yes', 'also when it still works: revoke it, then delete it')
    .addHelpText('after', DELETING)
    .action(async (id: string, { yes = false }: { yes?: boolean }) => {
      if (yes) await revokeConnector(findAccess(), id);
      print(await deleteConnector(findAccess(), id), deletedText);
    });
}
