// What ends soon, so that somebody acts before people and programs lose access.
import { connectorState } from '../links/connector.ts';
import { listConnectors } from '../links/connectors.ts';
import type { EndKind } from '../observability/labels.ts';
import type { Settings } from '../settings/settings.ts';
import { allItems } from './api/all-items.ts';
import type { ManagementClient } from './api/client.ts';
import type { ManagementContext } from './context.ts';
import { HANDLERS } from './handlers.ts';
import { isoTime } from './represent.ts';
import type { Client } from './resources/client.ts';
import type { Connector } from './resources/connector.ts';
import type { Key } from './resources/key.ts';
import { epochSeconds } from './resources/fields.ts';
import type { Page } from './resources/schemas.ts';
import type { Token } from './resources/token.ts';

/** `name` is that of the record, the id of a signing key, the id of the identity provider, or `upstream <id>`, whose client secret ends. */
export type ComingEnd = { kind: EndKind; name: string; endsAt: string };

export const ENDING_DAYS = 14;
const DAY_SECONDS = 86_400;

type List<Item> = (page: { limit: string; after?: string }) => Promise<Page<Item>>;

/** Where records are listed: by the API, or in this process. */
export type RecordLists = {
  connectors: List<Pick<Connector, 'name' | 'state' | 'expiresAt'>>;
  tokens: List<Token>;
  machines: List<Client>;
  keys: () => Promise<Page<Key>>;
};

export function listsOfApi(client: ManagementClient): RecordLists {
  return {
    connectors: (query) => client.listConnectors({ query }),
    tokens: (query) => client.listTokens({ query }),
    machines: (query) => client.listClients({ query: { ...query, kind: 'machine' } }),
    keys: () => client.listKeys(),
  };
}

/** `connectors` are all, if they were read already. */
export function listsOfProcess(
  management: ManagementContext,
  connectors = listConnectors(management.services.store),
): RecordLists {
  const { settings, services } = management;
  const query = { limit: Infinity };
  return {
    connectors: async () => ({
      items: (await connectors).map((each) => ({
        name: each.name,
        state: connectorState(each, services.now(), settings),
        ...(each.expiresAt === undefined ? {} : { expiresAt: isoTime(each.expiresAt) }),
      })),
    }),
    tokens: () => HANDLERS.listTokens(management, { query }),
    machines: () => HANDLERS.listClients(management, { query: { ...query, kind: 'machine' } }),
    keys: () => HANDLERS.listKeys(management, {}),
  };
}

/** What works now and ends within ENDING_DAYS, the next end first. `now` is in seconds. */
export async function findComingEnds(
  lists: RecordLists,
  { identityProviders, upstreams }: Pick<Settings, 'identityProviders' | 'upstreams'>,
  now: number,
): Promise<ComingEnd[]> {
  const found: ComingEnd[] = [];
  const add = (kind: EndKind, name: string, endsAt: string | undefined) => {
    if (endsAt === undefined) return;
    const left = epochSeconds(endsAt) - now;
    if (left < ENDING_DAYS * DAY_SECONDS) found.push({ kind, name, endsAt });
  };
  for await (const { name, state, expiresAt } of allItems(lists.connectors))
    if (state !== 'revoked' && state !== 'expired') add('connector', name, expiresAt);
  for await (const { name, keyReplaced, expiresAt } of allItems(lists.tokens))
    if (!keyReplaced) add('token', name, expiresAt);
  for await (const { id, name = id, state, machine } of allItems(lists.machines))
    if (state !== 'revoked') add('machine', name, machine?.expiresAt);
  for (const { id, publishedUntil } of (await lists.keys()).items)
    add('signing_key', id, publishedUntil);
  const addSecret = (id: string, day: string | undefined) =>
    add('client_secret', id, day && `${day}T00:00:00Z`);
  for (const { id, clientSecretExpires } of identityProviders) addSecret(id, clientSecretExpires);
  for (const { id, credential } of upstreams)
    if (credential && credential.kind !== 'key')
      addSecret(`upstream ${id}`, credential.clientSecretExpires);
  return found.toSorted((one, other) => epochSeconds(one.endsAt) - epochSeconds(other.endsAt));
}

/** Counts what ends soon by kind. */
export async function countComingEnds(
  management: ManagementContext,
): Promise<Partial<Record<EndKind, number>>> {
  const { settings, services } = management;
  const counts: Partial<Record<EndKind, number>> = {};
  for (const { kind } of await findComingEnds(listsOfProcess(management), settings, services.now()))
    counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}
