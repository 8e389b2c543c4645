import { recordAudit } from '../audit/audit.ts';
import {
  allowClient as allowRecord,
  type Client,
  findClient,
  revokeClient as revokeRecord,
  clientSets,
} from '../clients/clients.ts';
import { destinationsOf, listRules, UNNAMED } from '../clients/rules.ts';
import { endConnections } from '../connections/connections.ts';
import { connectedClientSets } from '../grants/grant-lists.ts';
import { HttpError, notFound } from '../http/errors.ts';
import type { ClientsQuery } from './api/requests.ts';
import type { ClientResource, Page, RevokedClientResource } from './api/resources.ts';
import { addClientRule } from './client-rules.ts';
import { clientResource } from './representations.ts';
import type { ManagementContext } from './context.ts';
import { type Listed, scanPage, searchFor } from './search.ts';

export async function listClients(
  management: ManagementContext,
  { limit, after, id, state, q }: ClientsQuery,
): Promise<Page<ClientResource>> {
  const found = searchFor(q);
  const { items, next } = await scanPage(
    id === undefined ? listed(management, state, after) : only(management, id),
    (client) =>
      (state === undefined || client.state === state) &&
      found([client.name, client.id, ...client.redirectUris]),
    limit,
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
      'a machine cannot be allowed: to replace a revoked machine, create a new one',
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

async function* only(
  { settings, services }: ManagementContext,
  id: string,
): AsyncGenerator<Listed<Client>> {
  const client = await findClient(services.store, id, settings.clients);
  if (client) yield { item: client, cursor: id };
}

const BATCH_CLIENTS = 100;

/** The sets of clients that may have this state, each client in one or more of them. Those that wait come first, then the last connected. */
function setsOf({ settings, services }: ManagementContext, state: Client['state'] | undefined) {
  const { refreshTokenAbsolute, unusedClient, usedClient } = settings.lifetimes;
  const now = services.now();
  const { waiting, revoked, allowed } = clientSets({ now, unusedClient, usedClient });
  if (state === 'revoked') return revoked;
  const connected = connectedClientSets({ lifetime: refreshTokenAbsolute, now }).toReversed();
  return [...waiting, ...revoked, ...allowed, ...connected];
}

/** Yields each client once. A cursor is the set, and the client in it. Skips ids whose registration or document has expired. */
async function* listed(
  management: ManagementContext,
  state: Client['state'] | undefined,
  after: string | undefined,
): AsyncGenerator<Listed<Client>> {
  const { settings, services } = management;
  const { store } = services;
  const sets = setsOf(management, state);
  const [set = '', ...words] = after?.split(' ') ?? [];
  // A set that is not read any more: the list starts again.
  const start = sets.indexOf(set);
  const rules = await listRules(store);
  for (const [index, key] of sets.entries()) {
    if (index < start) continue;
    let last = index === start ? words.join(' ') : undefined;
    for (;;) {
      const ids = await store.page(key, { after: last, limit: BATCH_CLIENTS });
      const earlier = sets.slice(0, index).map((each) => store.includes(each, ids));
      const yielded = await Promise.all(earlier);
      const fresh = ids.filter((id) => !yielded.some((found) => found.has(id)));
      const found = fresh.map((id) => findClient(store, id, settings.clients, undefined, rules));
      for (const client of await Promise.all(found))
        if (client) yield { item: client, cursor: `${key} ${client.id}` };
      if (ids.length < BATCH_CLIENTS) break;
      last = ids.at(-1);
    }
  }
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
