import type { Connection } from '../connections/connection.ts';
import { endConnection, findConnection, listConnections } from '../connections/connections.ts';
import { type HttpError, notFound } from '../http/errors.ts';
import type { GrantsQuery } from './api/requests.ts';
import type { GrantResource, Page } from './api/resources.ts';
import { grantResource } from './representations.ts';
import type { ManagementContext } from './context.ts';

export async function listGrants(
  { settings, services }: ManagementContext,
  { limit, after, ...filter }: GrantsQuery,
): Promise<Page<GrantResource>> {
  const page: Page<GrantResource> = { items: [] };
  let last: string | undefined;
  for await (const { connection, cursor } of listConnections(settings, services, filter, after)) {
    if (page.items.length === limit) return { ...page, next: last };
    page.items.push(grantResource(connection));
    last = cursor;
  }
  return page;
}

export async function showGrant(management: ManagementContext, id: string): Promise<GrantResource> {
  return grantResource(await requireConnection(management, id));
}

export async function revokeGrant(
  management: ManagementContext,
  id: string,
): Promise<GrantResource> {
  const connection = await requireConnection(management, id);
  const { services, by } = management;
  await endConnection(services, connection, 'revoked_by_administrator', by);
  return showGrant(management, connection.id);
}

async function requireConnection(
  { settings, services }: ManagementContext,
  id: string,
): Promise<Connection> {
  const connection = await findConnection(settings, services, id);
  if (!connection) throw unknownGrant();
  return connection;
}

function unknownGrant(): HttpError {
  return notFound('there is no grant with this id; ended grants are kept for 30 days');
}
