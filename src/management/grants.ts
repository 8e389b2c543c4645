// Grants as administrators manage them: listed by connector, account or client, shown with why they are over, and ended.
import { findConnection, listConnections } from '../connections/connections.ts';
import type { Connection } from '../connections/connection.ts';
import { endConnection } from '../connections/ending.ts';
import { type HttpError, notFound } from '../http/errors.ts';
import type { Page } from './api/resources.ts';
import { grantDocument, type GrantDocument, grantPage, grantSchema } from './grant-documents.ts';
import { grantsQuery, type GrantsQuery } from './api/requests.ts';
import { type ManagementTools, NOT_FOUND, route } from './api/routes.ts';

export const grantRoutes = [
  route({
    method: 'get',
    path: '/grants',
    name: 'listGrants',
    summary: 'Lists grants, the oldest first; without a filter connector by connector.',
    query: grantsQuery,
    answer: grantPage,
    handle: (tools, { query }) => listGrants(tools, query),
  }),
  route({
    method: 'get',
    path: '/grants/:id',
    name: 'showGrant',
    summary: 'Shows a grant, and why it is over or refused; what ended is remembered for 30 days.',
    answer: grantSchema,
    refusals: NOT_FOUND,
    handle: (tools, { id }) => showGrant(tools, id),
  }),
  route({
    method: 'delete',
    path: '/grants/:id',
    name: 'revokeGrant',
    summary: 'Ends a grant: the app is disconnected at once.',
    answer: grantSchema,
    refusals: NOT_FOUND,
    handle: (tools, { id }) => revokeGrant(tools, id),
  }),
];

export async function listGrants(
  tools: ManagementTools,
  { limit, after, ...wanted }: GrantsQuery,
): Promise<Page<GrantDocument>> {
  const page: Page<GrantDocument> = { items: [] };
  let last: string | undefined;
  for await (const { connection, place } of listConnections(tools, wanted, after)) {
    if (page.items.length === limit) return { ...page, next: last };
    page.items.push(grantDocument(connection));
    last = place;
  }
  return page;
}

export async function showGrant(tools: ManagementTools, id: string): Promise<GrantDocument> {
  return grantDocument(await requireConnection(tools, id));
}

export async function revokeGrant(tools: ManagementTools, id: string): Promise<GrantDocument> {
  const connection = await requireConnection(tools, id);
  await endConnection(tools, connection, 'revoked_by_administrator');
  return showGrant(tools, connection.id);
}

async function requireConnection(tools: ManagementTools, id: string): Promise<Connection> {
  const connection = await findConnection(tools, id);
  if (!connection) throw unknownGrant();
  return connection;
}

function unknownGrant(): HttpError {
  return notFound('there is no grant with this id; what ended is forgotten after 30 days');
}
