// Clients as administrators manage them: those that people connected with, revoked with all their grants, and allowed again.
import { recordAudit } from '../audit/audit.ts';
import {
  allowClient as allowRecord,
  type Client,
  findClient,
  revokeClient as revokeRecord,
  revokedClients,
} from '../clients/clients.ts';
import { endConnections } from '../connections/connections.ts';
import { connectedClients } from '../grants/grant-lists.ts';
import { notFound } from '../http/errors.ts';
import { firstPage, type Page } from './api/resources.ts';
import {
  clientResource,
  type ClientResource,
  clientPage,
  clientSchema,
  type RevokedClientResource,
  revokedClientSchema,
} from './grant-documents.ts';
import { clientBody, clientsQuery, type ClientsQuery } from './api/requests.ts';
import { NOT_FOUND, route } from './api/routes.ts';
import type { ManagementServices } from './services.ts';

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
    handle: (services, { query }) => listClients(services, query),
  }),
  route({
    method: 'post',
    path: '/clients/revoke',
    name: 'revokeClient',
    summary: 'Revokes a client: all its grants end, and nobody can connect it.',
    body: () => clientBody,
    answer: revokedClientSchema,
    refusals: NOT_FOUND,
    handle: (services, { body }) => revokeClient(services, body.id),
  }),
  route({
    method: 'post',
    path: '/clients/allow',
    name: 'allowClient',
    summary: 'Lets people connect a client again that was revoked.',
    body: () => clientBody,
    answer: clientSchema,
    refusals: NOT_FOUND,
    handle: (services, { body }) => allowClient(services, body.id),
  }),
];

export async function listClients(
  services: ManagementServices,
  { limit, after = '', id }: ClientsQuery,
): Promise<Page<ClientResource>> {
  const ids = id === undefined ? await knownIds(services) : [id];
  const later = ids.filter((candidate) => candidate > after);
  const { items, next } = firstPage(await firstKnown(services, later, limit + 1), limit);
  return { items: items.map(clientResource), next };
}

export async function revokeClient(
  services: ManagementServices,
  id: string,
): Promise<RevokedClientResource> {
  await requireClient(services, id);
  // First refused and then ended: an approval under way either sees that it is refused, or is among those that are ended.
  const first = await revokeRecord(services.store, id, services.now());
  const endedGrants = await endConnections(services, { client: id }, 'client_revoked');
  if (first) await record(services, 'client_revoked', id);
  return { ...clientResource(await requireClient(services, id)), endedGrants };
}

export async function allowClient(
  services: ManagementServices,
  id: string,
): Promise<ClientResource> {
  const client = await requireClient(services, id);
  const first = await allowRecord(services.store, id);
  if (first) await record(services, 'client_allowed', id);
  const { revokedAt: _over, ...allowed } = client;
  return clientResource(allowed);
}

async function record({ store, by, now }: ManagementServices, event: string, clientId: string) {
  await recordAudit(store, { event, clientId, by, outcome: 'done' }, now());
}

async function knownIds({ store, grantLifetime, now }: ManagementServices): Promise<string[]> {
  const [connected, revoked] = await Promise.all([
    connectedClients(store, { lifetime: grantLifetime, now: now() }),
    revokedClients(store),
  ]);
  return [...new Set([...connected, ...revoked])].sort();
}

/** Ids of which nothing is known any more are left out. */
async function firstKnown(
  { store, clients }: ManagementServices,
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

async function requireClient({ store, clients }: ManagementServices, id: string): Promise<Client> {
  const client = await findClient(store, id, clients);
  if (!client) throw notFound('there is no client with this id');
  return client;
}
