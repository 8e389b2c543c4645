import { recordChange } from '../audit/recorded-change.ts';
import {
  allowClient,
  type Client as Found,
  clientSets,
  findClient,
  findClients,
  revokeClient,
} from '../clients/clients.ts';
import { machineIds } from '../clients/machines.ts';
import { destinationsOf, listRules, UNNAMED } from '../clients/rules.ts';
import {
  allowingLine,
  listRefusedRegistrations,
  type RefusedRegistration,
} from '../clients/refused-registrations.ts';
import { endConnections } from '../connections/connections.ts';
import { connectedClients, connectedClientSets } from '../connections/grant-lists.ts';
import { HttpError, notFound } from '../http/errors.ts';
import type { Store } from '../store/store.ts';
import { addClientRule } from './client-rules.ts';
import type { Handlers, ManagementContext } from './context.ts';
import { represent, wholeSecond } from './represent.ts';
import {
  type Client,
  type clientOperations,
  clientSchema,
  machineFacts,
} from './resources/client.ts';
import { findById, type Listed, scannedBy, scanPage, searchFor } from './search.ts';

export const clientHandlers: Handlers<keyof typeof clientOperations> = {
  async listClients(management, { query: { limit, after, id, state, kind, q } }) {
    const { settings, services } = management;
    const known = await findById(management, q, (found) =>
      findClient(services.store, found, settings.clients),
    );
    if (known) return { items: [resource(known)] };
    const found = searchFor(q);
    const listed = kind === 'machine' ? machines(management, after) : undefined;
    const { items, next } = await scanPage(
      id === undefined
        ? (listed ?? listedWithRefused(management, state, after))
        : only(management, id),
      (client) =>
        (state === undefined || client.state === state) &&
        (kind === undefined || client.kind === kind) &&
        found([client.name, client.id, ...client.redirectUris]),
      { limit, scanned: scannedBy(management) },
    );
    return { items, next };
  },

  async revokeClient(management, { body: { id } }) {
    const { settings, services, by } = management;
    await requireClient(management, id);
    // Revoke before ending grants: a concurrent approval either sees the revocation or its grant is ended here.
    const item = { event: 'client_revoked', clientId: id, by };
    await recordChange(services, item, {
      make: () => revokeClient(services.store, id, services.now()),
      itemOf: (first) => (first ? item : undefined),
    });
    const reason = 'client_revoked';
    const endedGrants = await endConnections(settings, services, { client: id }, reason, by);
    return { ...resource(await requireClient(management, id)), endedGrants };
  },

  /** `app` also allows later registrations of the same app. A metadata document waits again when its name or redirect URIs change. */
  async allowClient(management, { body: { id, app = false } }) {
    const { settings, services, by } = management;
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
    const lifetime = settings.lifetimes.usedClient;
    const times = { now: services.now(), lifetime };
    const { name } = client;
    const details = {
      ...(name === undefined ? {} : { name }),
      destinations: destinationsOf(client),
    };
    const item = { event: 'client_allowed', clientId: id, arguments: details, by };
    await recordChange(services, item, {
      make: () => allowClient(services.store, client, times),
      itemOf: (isChanged) => (isChanged ? item : undefined),
    });
    // A client whose registration has expired is known only while it is revoked.
    const allowed = await findClient(services.store, id, settings.clients);
    const unknown = { ...client, state: 'allowed' as const };
    return resource(allowed ?? { ...unknown, revokedAt: undefined, waitingSince: undefined });
  },
};

/** Returns the client, as `listClients` with its id does. Throws HttpError 404. */
export async function showClient(management: ManagementContext, id: string): Promise<Client> {
  return resource(await requireClient(management, id));
}

/** An app without a name cannot be recognized. */
async function allowApp(management: ManagementContext, client: Found): Promise<void> {
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

async function* only(
  { settings, services }: ManagementContext,
  id: string,
): AsyncGenerator<Listed<Client>> {
  const client = await findClient(services.store, id, settings.clients);
  if (client) yield { item: resource(client), cursor: id };
}

/** A cursor is the id. */
async function* machines(
  { settings, services }: ManagementContext,
  after = '',
): AsyncGenerator<Listed<Client>> {
  const { store, now } = services;
  const lifetime = settings.lifetimes.refreshTokenAbsolute;
  const all = await machineIds(store, () => connectedClients(store, { lifetime, now: now() }));
  const ids = all.filter((id) => id > after).sort();
  const rules = await listRules(store);
  for (let from = 0; from < ids.length; from += BATCH_CLIENTS) {
    const batch = ids.slice(from, from + BATCH_CLIENTS);
    for (const client of await findClients(store, batch, settings.clients, rules))
      if (client) yield { item: resource(client), cursor: client.id };
  }
}

const REFUSED = 'refused:all';

/** Refused registrations come first. */
async function* listedWithRefused(
  management: ManagementContext,
  state: Client['state'] | undefined,
  after: string | undefined,
): AsyncGenerator<Listed<Client>> {
  const { settings, services } = management;
  const isAfterRefused = after?.startsWith(`${REFUSED} `) ?? false;
  if (after === undefined || isAfterRefused) {
    const refused = await listRefusedRegistrations(services.store, settings.clients);
    const last = isAfterRefused ? after?.slice(REFUSED.length + 1) : undefined;
    for (const each of refused)
      if (last === undefined || each.place < last)
        yield { item: refusedResource(management, each), cursor: `${REFUSED} ${each.place}` };
  }
  if (state === 'redirect_refused') return;
  for await (const { item, cursor } of listed(
    management,
    state,
    isAfterRefused ? undefined : after,
  ))
    yield { item: resource(item), cursor };
}

function refusedResource(
  { settings }: ManagementContext,
  { id, name, redirectUris, seenAt }: RefusedRegistration,
): Client {
  return represent(clientSchema, {
    id,
    kind: 'self-registered',
    state: 'redirect_refused',
    name: name === '' ? undefined : name,
    redirectUris,
    lastSeenAt: seenAt,
    allowWith: allowingLine(redirectUris, settings.clients),
  });
}

const BATCH_CLIENTS = 50;

/** The sets of clients that may have this state, each client in one or more of them. Those that wait come first, then the last connected. */
function setsOf({ settings, services }: ManagementContext, state: Found['state'] | undefined) {
  const { refreshTokenAbsolute, unusedClient, usedClient } = settings.lifetimes;
  const now = services.now();
  const { registration } = settings.clients;
  const { waiting, revoked, allowed } = clientSets({ now, unusedClient, usedClient });
  if (state === 'revoked') return revoked;
  if (state === 'waiting' && registration === 'open') return [];
  const connected = connectedClientSets({ lifetime: refreshTokenAbsolute, now }).toReversed();
  return [...waiting, ...revoked, ...allowed, ...connected];
}

/** Without the empty sets, but for the set `last`. Each is asked for every client of the sets behind it. */
async function withMembers(store: Store, sets: readonly string[], last: string): Promise<string[]> {
  const first = await Promise.all(sets.map((key) => store.page(key, { limit: 1 })));
  return sets.filter((key, index) => key === last || first[index]?.length === 1);
}

/** Yields each client once. A cursor is the set, and the client in it. Skips ids whose registration or document has expired. */
async function* listed(
  management: ManagementContext,
  state: Found['state'] | undefined,
  after: string | undefined,
): AsyncGenerator<Listed<Found>> {
  const { settings, services } = management;
  const { store } = services;
  const [set = '', ...words] = after?.split(' ') ?? [];
  const sets = await withMembers(store, setsOf(management, state), set);
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
      for (const client of await findClients(store, fresh, settings.clients, rules))
        if (client) yield { item: client, cursor: `${key} ${client.id}` };
      if (ids.length < BATCH_CLIENTS) break;
      last = ids.at(-1);
    }
  }
}

async function requireClient(
  { settings, services }: ManagementContext,
  id: string,
): Promise<Found> {
  const client = await findClient(services.store, id, settings.clients);
  if (!client) throw notFound('there is no client with this id');
  return client;
}

function resource(client: Found): Client {
  return represent(clientSchema, {
    ...client,
    usesDevice: client.usesDevice || undefined,
    lastUsedAt: wholeSecond(client.lastUsedAt),
    revokedAt: wholeSecond(client.revokedAt),
    waitingSince: wholeSecond(client.waitingSince),
    machine: client.machine && represent(machineFacts, client.machine),
  });
}
