// Grants as administrators manage them: listed by connector, account or client, shown with why they are over, and ended.
import type { Connection } from '../connections/connection.ts';
import { endConnection, findConnection, listConnections } from '../connections/connections.ts';
import { type HttpError, notFound } from '../http/errors.ts';
import type { Page } from './api/resources.ts';
import { grantResource, type GrantResource, grantPage, grantSchema } from './grant-documents.ts';
import { grantsQuery, type GrantsQuery } from './api/requests.ts';
import { NOT_FOUND, route } from './api/routes.ts';
import type { ManagementServices } from './services.ts';

export const grantRoutes = [
  route({
    method: 'get',
    path: '/grants',
    name: 'listGrants',
    summary: 'Lists grants, the oldest first; without a filter connector by connector.',
    query: grantsQuery,
    answer: grantPage,
    handle: (services, { query }) => listGrants(services, query),
  }),
  route({
    method: 'get',
    path: '/grants/:id',
    name: 'showGrant',
    summary: 'Shows a grant, and why it is over or refused; what ended is remembered for 30 days.',
    answer: grantSchema,
    refusals: NOT_FOUND,
    handle: (services, { id }) => showGrant(services, id),
  }),
  route({
    method: 'delete',
    path: '/grants/:id',
    name: 'revokeGrant',
    summary: 'Ends a grant: the app is disconnected at once.',
    answer: grantSchema,
    refusals: NOT_FOUND,
    handle: (services, { id }) => revokeGrant(services, id),
  }),
];

export async function listGrants(
  services: ManagementServices,
  { limit, after, ...wanted }: GrantsQuery,
): Promise<Page<GrantResource>> {
  const page: Page<GrantResource> = { items: [] };
  let last: string | undefined;
  for await (const { connection, cursor } of listConnections(services, wanted, after)) {
    if (page.items.length === limit) return { ...page, next: last };
    page.items.push(grantResource(connection));
    last = cursor;
  }
  return page;
}

export async function showGrant(services: ManagementServices, id: string): Promise<GrantResource> {
  return grantResource(await requireConnection(services, id));
}

export async function revokeGrant(
  services: ManagementServices,
  id: string,
): Promise<GrantResource> {
  const connection = await requireConnection(services, id);
  await endConnection(services, connection, 'revoked_by_administrator');
  return showGrant(services, connection.id);
}

async function requireConnection(services: ManagementServices, id: string): Promise<Connection> {
  const connection = await findConnection(services, id);
  if (!connection) throw unknownGrant();
  return connection;
}

function unknownGrant(): HttpError {
  return notFound('there is no grant with this id; what ended is forgotten after 30 days');
}
