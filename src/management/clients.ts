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
import type { ClientsQuery } from './api/requests.ts';
import type { ClientResource, Page, RevokedClientResource } from './api/resources.ts';
import { clientResource, firstPage } from './representations.ts';
import type { ManagementServices } from './services.ts';

export async function listClients(
  services: ManagementServices,
  { limit, after = '', id }: ClientsQuery,
): Promise<Page<ClientResource>> {
  const ids = id === undefined ? await knownIds(services) : [id];
  const later = ids.filter((candidate) => candidate > after);
  const { items, next } = firstPage(await findClients(services, later, limit + 1), limit);
  return { items: items.map(clientResource), next };
}

export async function revokeClient(
  services: ManagementServices,
  id: string,
): Promise<RevokedClientResource> {
  await requireClient(services, id);
  // Revoke before ending grants: a concurrent approval either sees the revocation or its grant is ended here.
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
  const { revokedAt: _revokedAt, ...allowed } = client;
  return clientResource(allowed);
}

async function record(services: ManagementServices, event: string, clientId: string) {
  await recordAudit(services, { event, clientId, by: services.by, outcome: 'done' });
}

async function knownIds({ store, grantLifetime, now }: ManagementServices): Promise<string[]> {
  const [connected, revoked] = await Promise.all([
    connectedClients(store, { lifetime: grantLifetime, now: now() }),
    revokedClients(store),
  ]);
  return [...new Set([...connected, ...revoked])].sort();
}

/** Skips ids whose registration or document has expired. */
async function findClients(
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
