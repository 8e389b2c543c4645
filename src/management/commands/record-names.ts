// The names of records, which lists show beside ids.
import { ACCOUNT_ID } from '../../accounts/account.ts';
import type { AuditItem } from '../../audit/audit.ts';
import { allItems, type ManagementClient } from '../api/client.ts';
import { foundOnly } from './resolve.ts';

/** Names by id. Deleted records have none. */
export type RecordNames = ReadonlyMap<string, string>;

type Named = { id: string; name?: string | undefined };

const MAX_CONCURRENT = 10;
/** In place of a client id, in calls with a minted token. */
const MINTED = /^minted:/;
const BY_ACCOUNT = /^account:/;

/** Returns the name and the id, or only what there is. */
export function nameAndId(names: RecordNames, id: string | undefined): string {
  if (id === undefined) return '-';
  const name = names.get(id.replace(MINTED, '').replace(BY_ACCOUNT, ''));
  return name === undefined || name === id ? id : `${name} (${id})`;
}

type UpstreamItem = { upstream?: string | undefined };

export type UpstreamColumn = { title: string[]; cells: (item: UpstreamItem) => string[] };

/** The column of the MCP servers, if the items lead to several. */
export async function upstreamColumn(
  client: ManagementClient,
  items: readonly UpstreamItem[],
): Promise<UpstreamColumn> {
  const isShown = new Set(items.map(({ upstream }) => upstream)).size > 1;
  if (!isShown) return { title: [], cells: () => [] };
  const names = namesIn((await client.listUpstreams()).items);
  return { title: ['UPSTREAM'], cells: ({ upstream }) => [nameAndId(names, upstream)] };
}

/** Looks up each person, app, connector and token in the items once. */
export async function auditNames(
  client: ManagementClient,
  items: readonly AuditItem[],
): Promise<RecordNames> {
  const subjects = items.flatMap(({ account, by }) => [account, by?.replace(BY_ACCOUNT, '')]);
  const clients = items.map(({ clientId }) => clientId);
  const isMinted = (id = '') => MINTED.test(id);
  const found = [
    ...(await lookUp(
      subjects.filter((id) => id !== undefined && ACCOUNT_ID.test(id)),
      (id) => foundOnly(client.showAccount({ id })),
    )),
    ...(await lookUp(
      clients.filter((id) => !isMinted(id)),
      async (id) => (await client.listClients({ query: { id } })).items[0],
    )),
    ...(await lookUp(
      items.map(({ connector }) => connector),
      (id) => foundOnly(client.showConnector({ id })),
    )),
    ...(clients.some(isMinted)
      ? await Array.fromAsync(allItems((query) => client.listTokens({ query })))
      : []),
  ];
  return namesIn(found);
}

function namesIn(records: readonly Named[]): RecordNames {
  return new Map(records.flatMap(({ id, name }) => (name ? [[id, name] as const] : [])));
}

async function lookUp(
  ids: readonly (string | undefined)[],
  find: (id: string) => Promise<Named | undefined>,
): Promise<Named[]> {
  const waiting = [...new Set(ids)].filter((id) => id !== undefined).values();
  const found: Named[] = [];
  const worker = async () => {
    for (const id of waiting) {
      const record = await find(id);
      if (record) found.push(record);
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT }, worker));
  return found;
}
