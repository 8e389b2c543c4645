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
import type { ManagementContext } from './context.ts';

export async function listClients(
  management: ManagementContext,
  { limit, after = '', id }: ClientsQuery,
): Promise<Page<ClientResource>> {
  const ids = id === undefined ? await knownIds(management) : [id];
  const later = ids.filter((candidate) => candidate > after);
  const { items, next } = firstPage(await findClients(management, later, limit + 1), limit);
  return { items: items.map(clientResource), next };
}

export async function revokeClient(
  management: ManagementContext,
  id: string,
): Promise<RevokedClientResource> {
  const { settings, services, by } = management;
  await requireClient(management, id);
  // Revoke before ending grants: a concurrent approval either sees the revocation or its grant is ended here.
  const first = await revokeRecord(services.store, id, services.now());
  const endedGrants = await endConnections(
    settings,
    services,
    { client: id },
    'client_revoked',
    by,
  );
  if (first) await record(management, 'client_revoked', id);
  return { ...clientResource(await requireClient(management, id)), endedGrants };
}

export async function allowClient(
  management: ManagementContext,
  id: string,
): Promise<ClientResource> {
  const client = await requireClient(management, id);
  const first = await allowRecord(management.services.store, id);
  if (first) await record(management, 'client_allowed', id);
  const { revokedAt: _revokedAt, ...allowed } = client;
  return clientResource(allowed);
}

async function record({ services, by }: ManagementContext, event: string, clientId: string) {
  await recordAudit(services, { event, clientId, by, outcome: 'done' });
}

async function knownIds({ settings, services }: ManagementContext): Promise<string[]> {
  const { store, now } = services;
  const lifetime = settings.lifetimes.refreshTokenAbsolute;
  const [connected, revoked] = await Promise.all([
    connectedClients(store, { lifetime, now: now() }),
    revokedClients(store),
  ]);
  return [...new Set([...connected, ...revoked])].sort();
}

/** Skips ids whose registration or document has expired. */
async function findClients(
  { settings: { clients }, services: { store } }: ManagementContext,
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

async function requireClient(
  { settings, services }: ManagementContext,
  id: string,
): Promise<Client> {
  const client = await findClient(services.store, id, settings.clients);
  if (!client) throw notFound('there is no client with this id');
  return client;
}
