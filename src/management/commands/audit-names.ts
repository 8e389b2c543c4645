// The names of what items of the audit log are about.
import { ACCOUNT_ID } from '../../people/account.ts';
import type { AuditItem } from '../../audit/audit.ts';
import { allItems } from '../api/all-items.ts';
import type { ManagementClient } from '../api/client.ts';
import type { Names } from '../resources/fields.ts';
import { foundOnly } from './resolve.ts';

type Named = { id: string; name?: string | undefined };

const MAX_CONCURRENT = 10;
/** In place of a client id, in calls with a minted token. */
const MINTED = /^minted:/;
const BY_ACCOUNT = /^account:/;

/** Looks up each person, app, connector and token in the items once. Deleted records have no name. */
export async function auditNames(
  client: ManagementClient,
  items: readonly AuditItem[],
): Promise<Names> {
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

function namesIn(records: readonly Named[]): Names {
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
