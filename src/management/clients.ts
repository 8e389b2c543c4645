// Clients as administrators manage them: those that people connected with, revoked with all their grants, and allowed again.
import { recordAudit } from '../audit/audit.ts';
import {
  allowClient as allowRecord,
  type Client,
  findClient,
  revokeClient as revokeRecord,
  revokedClients,
} from '../clients/clients.ts';
import { endConnections } from '../connections/ending.ts';
import { connectedClients } from '../grants/grant-lists.ts';
import { notFound } from '../http/errors.ts';
import { firstPage, type Page } from './api/resources.ts';
import {
  clientDocument,
  type ClientDocument,
  clientPage,
  clientSchema,
  type RevokedClientDocument,
  revokedClientSchema,
} from './grant-documents.ts';
import { clientBody, clientsQuery, type ClientsQuery } from './api/requests.ts';
import { type ManagementTools, NOT_FOUND, route } from './api/routes.ts';

/** An id may be a URL, so it is never part of a path. */
export const clientRoutes = [
  route({
    method: 'get',
    path: '/clients',
    name: 'listClients',
    summary:
      'Lists clients that somebody connected with, and those that are revoked; or one by its id.',
    query: clientsQuery,
    answer: clientPage,
    handle: (tools, { query }) => listClients(tools, query),
  }),
  route({
    method: 'post',
    path: '/clients/revoke',
    name: 'revokeClient',
    summary: 'Revokes a client: all its grants end, and nobody can connect it.',
    body: () => clientBody,
    answer: revokedClientSchema,
    refusals: NOT_FOUND,
    handle: (tools, { body }) => revokeClient(tools, body.id),
  }),
  route({
    method: 'post',
    path: '/clients/allow',
    name: 'allowClient',
    summary: 'Lets people connect a client again that was revoked.',
    body: () => clientBody,
    answer: clientSchema,
    refusals: NOT_FOUND,
    handle: (tools, { body }) => allowClient(tools, body.id),
  }),
];

export async function listClients(
  tools: ManagementTools,
  { limit, after = '', id }: ClientsQuery,
): Promise<Page<ClientDocument>> {
  const ids = id === undefined ? await knownIds(tools) : [id];
  const later = ids.filter((candidate) => candidate > after);
  const { items, next } = firstPage(await firstKnown(tools, later, limit + 1), limit);
  return { items: items.map(clientDocument), next };
}

export async function revokeClient(
  tools: ManagementTools,
  id: string,
): Promise<RevokedClientDocument> {
  await requireClient(tools, id);
  // First refused and then ended: an approval under way either sees that it is refused, or is among those that are ended.
  const first = await revokeRecord(tools.store, id, tools.now());
  const endedGrants = await endConnections(tools, { client: id }, 'client_revoked');
  if (first) await record(tools, 'client_revoked', id);
  return { ...clientDocument(await requireClient(tools, id)), endedGrants };
}

export async function allowClient(tools: ManagementTools, id: string): Promise<ClientDocument> {
  const client = await requireClient(tools, id);
  const first = await allowRecord(tools.store, id);
  if (first) await record(tools, 'client_allowed', id);
  const { revokedAt: _over, ...allowed } = client;
  return clientDocument(allowed);
}

async function record({ store, by, now }: ManagementTools, event: string, clientId: string) {
  await recordAudit(store, { event, clientId, by, outcome: 'done' }, now());
}

async function knownIds({ store, grantLifetime, now }: ManagementTools): Promise<string[]> {
  const [connected, revoked] = await Promise.all([
    connectedClients(store, { lifetime: grantLifetime, now: now() }),
    revokedClients(store),
  ]);
  return [...new Set([...connected, ...revoked])].sort();
}

/** Ids of which nothing is known any more are left out. */
async function firstKnown(
  { store, clients }: ManagementTools,
  ids: string[],
  count: number,
): Promise<Client[]> {
  const found: Client[] = [];
  const waiting = [...ids];
  while (waiting.length > 0 && found.length < count) {
    const batch = waiting.splice(0, count - found.length);
    const known = await Promise.all(batch.map((id) => findClient(store, id, clients)));
    found.push(...known.filter((client) => client !== undefined));
  }
  return found;
}

async function requireClient({ store, clients }: ManagementTools, id: string): Promise<Client> {
  const client = await findClient(store, id, clients);
  if (!client) throw notFound('there is no client with this id');
  return client;
}
