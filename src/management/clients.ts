import { recordAudit } from '../audit/audit.ts';
import {
  allowClient as allowRecord,
  type Client,
  findClient,
  revokeClient as revokeRecord,
  revokedClients,
  listedClients,
} from '../clients/clients.ts';
import { destinationsOf, UNNAMED } from '../clients/rules.ts';
import { endConnections } from '../connections/connections.ts';
import { connectedClients } from '../grants/grant-lists.ts';
import { HttpError, notFound } from '../http/errors.ts';
import type { ClientsQuery } from './api/requests.ts';
import type { ClientResource, Page, RevokedClientResource } from './api/resources.ts';
import { addClientRule } from './client-rules.ts';
import { clientResource } from './representations.ts';
import type { ManagementContext } from './context.ts';
import { scanPage, searchFor } from './search.ts';

export async function listClients(
  management: ManagementContext,
  { limit, after, id, state, q }: ClientsQuery,
): Promise<Page<ClientResource>> {
  const ids = id === undefined ? await knownIds(management) : [id];
  const found = searchFor(q);
  const { items, next } = await scanPage(
    (cursor = '', count) =>
      findClients(
        management,
        ids.filter((candidate) => candidate > cursor),
        count,
      ),
    (client) =>
      (state === undefined || client.state === state) &&
      found([client.name, client.id, ...client.redirectUris]),
    { limit, after },
  );
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

/** `app` also allows later registrations of the same app. A metadata document waits again when its name or redirect URIs change. */
export async function allowClient(
  management: ManagementContext,
  id: string,
  app = false,
): Promise<ClientResource> {
  const { settings, services } = management;
  const client = await requireClient(management, id);
  if (client.state === 'blocked')
    throw new HttpError(409, 'client_blocked', 'a rule blocks this app: remove the rule first');
  if (client.kind === 'machine')
    throw new HttpError(
      409,
      'machine_ended',
      'a machine needs no permission, and one that was revoked stays so: create a new one',
    );
  if (app && client.kind === 'self-registered') await allowApp(management, client);
  const changed = await allowRecord(services.store, client, {
    now: services.now(),
    lifetime: settings.lifetimes.usedClient,
  });
  if (changed) {
    const { name } = client;
    await record(management, 'client_allowed', id, {
      ...(name === undefined ? {} : { name }),
      destinations: destinationsOf(client),
    });
  }
  // A client whose registration has expired is known only while it is revoked.
  const allowed = await findClient(services.store, id, settings.clients);
  const {
    revokedAt: _revokedAt,
    waitingSince: _waitingSince,
    ...unknown
  } = { ...client, state: 'allowed' as const };
  return clientResource(allowed ?? unknown);
}

/** An app without a name cannot be recognized. */
async function allowApp(management: ManagementContext, client: Client): Promise<void> {
  const { name = UNNAMED } = client;
  if (name === UNNAMED)
    throw new HttpError(
      409,
      'app_without_name',
      'the app has no name: allow each of its registrations instead',
    );
  const subject = { effect: 'allow', name, destinations: destinationsOf(client) } as const;
  await addClientRule(management, subject, 'client_allowed');
}

async function record(
  { services, by }: ManagementContext,
  event: string,
  clientId: string,
  details?: Record<string, unknown>,
): Promise<void> {
  const about = details ? { clientId, arguments: details } : { clientId };
  await recordAudit(services, { event, ...about, by, outcome: 'done' });
}

async function knownIds({ settings, services }: ManagementContext): Promise<string[]> {
  const { store, now } = services;
  const { refreshTokenAbsolute, unusedClient, usedClient } = settings.lifetimes;
  const ids = await Promise.all([
    connectedClients(store, { lifetime: refreshTokenAbsolute, now: now() }),
    revokedClients(store),
    listedClients(store, 'waiting', { lifetime: unusedClient, now: now() }),
    listedClients(store, 'allowed', { lifetime: usedClient, now: now() }),
  ]);
  return [...new Set(ids.flat())].sort();
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

export async function showClient(
  management: ManagementContext,
  id: string,
): Promise<ClientResource> {
  return clientResource(await requireClient(management, id));
}

async function requireClient(
  { settings, services }: ManagementContext,
  id: string,
): Promise<Client> {
  const client = await findClient(services.store, id, settings.clients);
  if (!client) throw notFound('there is no client with this id');
  return client;
}
