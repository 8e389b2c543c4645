import { type Command, Option } from 'commander';
import { CONNECTION_STATES, type ConnectionState } from '../../connections/connection.ts';
import { allItems, type ManagementClient } from '../api/client.ts';
import { type GrantResource, personName } from '../api/resources.ts';
import { SEARCH_FLAG, searchHelp, type SearchOptions } from './option-values.ts';
import { resolveAccount, resolveClient, resolveConnector } from './resolve.ts';
import { details, foundText, minute, plain, quoted, table, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse grant list
  $ gatehouse grant list --connector Ops --state active
  $ gatehouse grant why <id>
  $ gatehouse grant revoke <id>`;

const ID = 'grant id, see gatehouse grant list or grantId in the audit log';

type Filter = { account?: string; client?: string; connector?: string; state?: ConnectionState };

export function addGrantCommands(program: Command, { openClient, print }: Terminal): void {
  const grant = program
    .command('grant')
    .description('list, explain and end connections (grants)')
    .addHelpText('after', EXAMPLES);
  grant
    .command('list')
    .description('list grants, oldest first')
    .option('--connector <connector>', 'only grants of this connector (id, link or unique name)')
    .option(
      '--account <account>',
      'only grants of this person (id, verified email address or unique name)',
    )
    .option('--client <client>', 'only grants of this app (id or unique name)')
    .addOption(
      new Option('--state <state>', 'only grants in this state').choices(CONNECTION_STATES),
    )
    .option(SEARCH_FLAG, searchHelp('the names and ids of app, person and connector'))
    .addHelpText('after', EXAMPLES)
    .action(async ({ search, ...given }: Filter & SearchOptions) => {
      const client = openClient();
      const filter = { ...(await resolveFilter(client, given)), q: search };
      const grants = allItems((page) => client.listGrants({ query: { ...filter, ...page } }));
      print({ items: await Array.fromAsync(grants) }, foundText(search, listText));
    });
  grant
    .command('show')
    .description('show one grant')
    .argument('<id>', ID)
    .action(async (id: string) => {
      print(await openClient().showGrant({ id }), detailsText);
    });
  grant
    .command('why')
    .description('explain why a grant ended or is refused')
    .argument('<id>', ID)
    .action(async (id: string) => {
      print(await openClient().showGrant({ id }), whyText);
    });
  grant
    .command('revoke')
    .description('end a grant immediately')
    .argument('<id>', ID)
    .action(async (id: string) => {
      print(await openClient().revokeGrant({ id }), revokedText);
    });
}

async function resolveFilter(
  api: ManagementClient,
  { account, client, connector, ...state }: Filter,
): Promise<Filter> {
  return {
    ...state,
    ...(account === undefined ? {} : { account: await resolveAccount(api, account) }),
    ...(client === undefined ? {} : { client: await resolveClient(api, client) }),
    ...(connector === undefined ? {} : { connector: await resolveConnector(api, connector) }),
  };
}

function listText({ items }: { items: GrantResource[] }): string {
  if (items.length === 0) return 'There are no grants. Nobody has connected an app.';
  const rows = items.map((grant) => [
    grant.id,
    grant.clientName,
    personName(grant),
    grant.connectorName ?? grant.connector,
    grant.level ?? '-',
    minute(grant.createdAt),
    grant.lastUsedAt ? minute(grant.lastUsedAt) : '-',
    grant.reason ? `${grant.state}: ${grant.reason}` : grant.state,
  ]);
  const headings = ['ID', 'CLIENT', 'PERSON', 'CONNECTOR', 'LEVEL', 'SINCE', 'LAST USED', 'STATE'];
  return table(headings, rows);
}

function detailsText(grant: GrantResource): string {
  return details({
    id: grant.id,
    state: grant.state,
    client: `${grant.clientName} (${grant.clientId})`,
    'redirect host': grant.redirectHost || '-',
    person: `${personName(grant)} (${grant.account})`,
    connector: `${grant.connectorName ?? 'unknown'} (${grant.connector})`,
    level: grant.level ?? '-',
    since: minute(grant.createdAt),
    'last used': grant.lastUsedAt ? minute(grant.lastUsedAt) : '-',
    ...(grant.expiresAt ? { 'expires if unused': minute(grant.expiresAt) } : {}),
    ...(grant.endedAt ? { ended: minute(grant.endedAt) } : {}),
    ...(grant.explanation ? { reason: `${grant.explanation} (${grant.reason})` } : {}),
  });
}

function whyText(grant: GrantResource): string {
  const app = `"${plain(grant.clientName)}" of ${plain(personName(grant))}`;
  const refusals = grant.refusals.map(
    ({ time, explanation, reason }) => `  ${minute(time)}  ${explanation} (${reason})`,
  );
  const history = refusals.length > 0 ? ['', 'Earlier refusals:', ...refusals] : [];
  return [`${STATE_TEXTS[grant.state](app, grant)}${reasonLine(grant)}`, ...history].join('\n');
}

const STATE_TEXTS: Record<GrantResource['state'], (app: string, grant: GrantResource) => string> = {
  pending: (app) => `${app} was approved but has not requested its tokens yet.`,
  active: (app) => `${app} is connected.`,
  refused: (app) => `${app} is connected, but Gatehouse refuses its requests.`,
  ended: (app, { endedAt }) => `${app} was disconnected${endedAt ? ` on ${minute(endedAt)}` : ''}.`,
};

function reasonLine({ explanation, reason }: GrantResource): string {
  return explanation ? `\n${explanation} (${reason})` : '';
}

function revokedText(grant: GrantResource): string {
  return `${whyText(grant)}\nTo revoke this app for everyone: gatehouse client revoke ${quoted(grant.clientId)}`;
}
