// Clients over the management API: those that people connected with, revoked with all their grants, and allowed again.
import type { Router } from '@koa/router';
import { recordAudit } from '../audit/audit.ts';
import {
  allowClient,
  type Client,
  type ClientSettings,
  findClient,
  revokeClient,
  revokedClients,
} from '../clients/clients.ts';
import type { ConnectionOptions } from '../connections/connections.ts';
import { endConnections } from '../connections/ending.ts';
import { connectedClients } from '../grants/grant-lists.ts';
import { readJson } from '../http/body.ts';
import { notFound } from '../http/errors.ts';
import { firstPage } from './documents.ts';
import { clientDocument, type RevokedClientDocument } from './grant-documents.ts';
import { clientBody, clientsQuery, parseInput } from './input.ts';

export type ClientRouteOptions = ConnectionOptions & { clients: ClientSettings };

/** An id may be a URL, so it is never part of a path. */
export function clientRoutes(router: Router, options: ClientRouteOptions): void {
  const { store, now } = options;

  router.get('/clients', async function list(ctx) {
    const { limit, after = '', id } = parseInput(clientsQuery, { ...ctx.query });
    const ids = id === undefined ? await knownIds(options) : [id];
    const found = await firstKnown(
      options,
      ids.filter((candidate) => candidate > after),
      limit + 1,
    );
    const { items, next } = firstPage(found, limit);
    ctx.body = { items: items.map(clientDocument), next };
  });

  router.post('/clients/revoke', async function revoke(ctx) {
    const { id } = parseInput(clientBody, await readJson(ctx));
    await requireClient(options, id);
    // First refused and then ended: an approval under way either sees that it is refused, or is among those that are ended.
    const first = await revokeClient(store, id, now());
    const endedGrants = await endConnections(options, { client: id }, 'client_revoked');
    if (first)
      await recordAudit(store, { event: 'client_revoked', clientId: id, outcome: 'done' }, now());
    const document: RevokedClientDocument = {
      ...clientDocument(await requireClient(options, id)),
      endedGrants,
    };
    ctx.body = document;
  });

  router.post('/clients/allow', async function allow(ctx) {
    const { id } = parseInput(clientBody, await readJson(ctx));
    const client = await requireClient(options, id);
    const first = await allowClient(store, id);
    if (first)
      await recordAudit(store, { event: 'client_allowed', clientId: id, outcome: 'done' }, now());
    const { revokedAt: _over, ...allowed } = client;
    ctx.body = clientDocument(allowed);
  });
}

async function knownIds({ store, grantLifetime, now }: ClientRouteOptions): Promise<string[]> {
  const [connected, revoked] = await Promise.all([
    connectedClients(store, { lifetime: grantLifetime, now: now() }),
    revokedClients(store),
  ]);
  return [...new Set([...connected, ...revoked])].sort();
}

/** Ids of which nothing is known any more are left out. */
async function firstKnown(
  { store, clients }: ClientRouteOptions,
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

async function requireClient({ store, clients }: ClientRouteOptions, id: string): Promise<Client> {
  const client = await findClient(store, id, clients);
  if (!client) throw notFound('there is no client with this id');
  return client;
}
