// Finds the record that an argument means: by its id, by its connect link, or by a name that no other record has.
import { ACCOUNT_ID, normalizeEmail } from '../../accounts/account.ts';
import { canonicalResource } from '../../connectors/connect-link.ts';
import { CONNECTOR_ID } from '../../connectors/connector.ts';
import { allItems, type ManagementClient } from '../api/client.ts';
import { ManagementError } from '../api/management-error.ts';
import type {
  AccountResource,
  ClientResource,
  ConnectorResource,
  MintedTokenResource,
  UpstreamResource,
} from '../api/resources.ts';
import { minute, plain } from './terminal.ts';

/** What the help says about an argument. */
export const CONNECTOR = 'id, connect link or unique name of a connector';
export const ACCOUNT = 'id, verified email address or unique name, see gatehouse account list';
export const CLIENT = 'id (which can be a URL) or unique name, see gatehouse client list';
export const UPSTREAM = 'id or unique name of an MCP server, see gatehouse upstream list';
export const TOKEN = 'id or unique name, see gatehouse token list';

/** Completion recognizes the name of the value. */
export const UPSTREAM_FLAG = '--upstream <upstream>';
export const UPSTREAM_OPTION =
  'id or unique name of its MCP server (default: the first in the settings)';

type Kind<Item> = {
  noun: string;
  /** The names that records have besides their id. */
  names: string;
  /** Finds a record by its id or link. */
  find: (text: string) => Promise<Item | undefined>;
  list: () => AsyncIterable<Item>;
  isNamed: (item: Item, text: string) => boolean;
  /** Distinguishes records with the same name. */
  describe: (item: Item) => string;
  /** Ids without a record are passed on, because grants outlive what they belong to. */
  id?: RegExp;
};

const MAX_LISTED = 20;

/** Rejects with `not_found`, or with `ambiguous_name` and the ids of all records with the name. */
async function resolveId<Item extends { id: string }>(
  { noun, names, find, list, isNamed, describe, id }: Kind<Item>,
  argument: string,
): Promise<string> {
  const text = argument.trim().normalize();
  const found = text === '' ? undefined : await find(text);
  if (found) return found.id;
  const matching: Item[] = [];
  for await (const item of list()) {
    if (item.id === text) return item.id;
    if (isNamed(item, text)) matching.push(item);
  }
  const [first, ...others] = matching;
  if (others.length > 0) {
    const listed = matching
      .slice(0, MAX_LISTED)
      .map((item) => `  ${plain(item.id)}  ${plain(describe(item))}`);
    const rest =
      matching.length > MAX_LISTED ? [`  … and ${matching.length - MAX_LISTED} more`] : [];
    const heading = `${matching.length} ${noun}s have this name. Use an id:`;
    throw new ManagementError('ambiguous_name', [heading, ...listed, ...rest].join('\n'));
  }
  if (first) return first.id;
  if (id?.test(text)) return text;
  throw new ManagementError('not_found', `there is no ${noun} with this id${names}`);
}

export function resolveConnector(client: ManagementClient, argument: string): Promise<string> {
  return resolveId<ConnectorResource>(
    {
      noun: 'connector',
      names: ', connect link or name',
      find: (text) => findConnector(client, text),
      list: () => allItems((query) => client.listConnectors({ query })),
      isNamed: ({ name }, text) => name.normalize() === text,
      describe: ({ state, level, createdAt }) => `${state}  ${level}  created ${minute(createdAt)}`,
      id: CONNECTOR_ID,
    },
    argument,
  );
}

const LINK = /^https?:\/\/.*\/connect\/([^/]+)\/mcp\/?$/i;

/** Rejects a link with another address: it may belong to another Gatehouse with a copy of the same store. */
async function findConnector(
  client: ManagementClient,
  text: string,
): Promise<ConnectorResource | undefined> {
  const id = LINK.exec(text)?.[1];
  const connector = CONNECTOR_ID.test(id ?? text)
    ? await foundOnly(client.showConnector({ id: id ?? text }))
    : undefined;
  if (!connector || id === undefined) return connector;
  if (canonicalResource(text) === canonicalResource(connector.link)) return connector;
  const message = `this connect link has another address; the connector's link is ${connector.link}`;
  throw new ManagementError('not_found', message);
}

/** People choose their names, so a text that looks like an id or an address is never compared with names. */
export function resolveAccount(client: ManagementClient, argument: string): Promise<string> {
  return resolveId<AccountResource>(
    {
      noun: 'account',
      names: ', verified email address or name',
      find: async (text) =>
        ACCOUNT_ID.test(text) ? foundOnly(client.showAccount({ id: text })) : undefined,
      list: () => allItems((query) => client.listAccounts({ query })),
      isNamed: ({ name, email, emailVerified }, text) =>
        text.includes('@')
          ? emailVerified === true && normalizeEmail(email ?? '') === normalizeEmail(text)
          : !ACCOUNT_ID.test(text) && name.normalize() === text,
      describe: ({ name, identityProvider, signedInAt }) =>
        `${name}  ${identityProvider}  signed in ${minute(signedInAt)}`,
      id: ACCOUNT_ID,
    },
    argument,
  );
}

/** Ids of clients that registered themselves, and addresses of metadata documents. */
const CLIENT_ID = /^(https:\/\/\S+|[\w-]{21,})$/;

/** Clients choose their names, so a text that looks like an id is never compared with names. */
export function resolveClient(api: ManagementClient, argument: string): Promise<string> {
  return resolveId<ClientResource>(
    {
      noun: 'client',
      names: ' or name',
      find: async (id) => (await api.listClients({ query: { id } })).items[0],
      list: () => allItems((query) => api.listClients({ query })),
      isNamed: ({ name }, text) => !CLIENT_ID.test(text) && name?.normalize() === text,
      describe: ({ kind, state, redirectUris }) => `${kind}  ${state}  ${redirectUris[0] ?? '-'}`,
      id: CLIENT_ID,
    },
    argument,
  );
}

export function resolveToken(client: ManagementClient, argument: string): Promise<string> {
  return resolveId<MintedTokenResource>(
    {
      noun: 'minted token',
      names: ' or name',
      find: async () => undefined,
      list: () => allItems((query) => client.listTokens({ query })),
      isNamed: ({ name }, text) => name.normalize() === text,
      describe: ({ level, lastFour, createdAt }) =>
        `${level}  ends in …${lastFour}  minted ${minute(createdAt)}`,
      id: /^[0-9a-f]{32}$/,
    },
    argument,
  );
}

/** Lists the ids if none fits, because settings have few. */
export async function resolveUpstream(client: ManagementClient, argument: string): Promise<string> {
  const { items } = await client.listUpstreams();
  const ids = items.map(({ id }) => id).join(', ');
  return resolveId<UpstreamResource>(
    {
      noun: 'upstream',
      names:
        ids === ''
          ? ' or name, because the settings have no upstream'
          : ` or name; expected one of ${ids}`,
      find: async (text) => items.find(({ id }) => id === text),
      list: async function* list() {
        yield* items;
      },
      isNamed: ({ name }, text) => name.normalize() === text,
      describe: ({ url }) => url,
    },
    argument,
  );
}

/** The member of a request body; none if the option was not given. */
export async function upstreamMember(
  client: ManagementClient,
  argument: string | undefined,
): Promise<{ upstream?: string }> {
  return argument === undefined ? {} : { upstream: await resolveUpstream(client, argument) };
}

/** Undefined if there is no such record. */
export async function foundOnly<Item>(response: Promise<Item>): Promise<Item | undefined> {
  try {
    return await response;
  } catch (error) {
    if (error instanceof ManagementError && error.code === 'not_found') return undefined;
    throw error;
  }
}
