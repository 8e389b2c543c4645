// Connectors as administrators manage them: created, listed, shown, revoked and deleted.
import { recordAudit } from '../audit/audit.ts';
import { type Connector, isUsable } from '../connectors/connector.ts';
import {
  createConnector as createRecord,
  deleteConnector as deleteRecord,
  findConnector,
  listConnectors as listRecords,
  type NewConnector,
  revokeConnector as revokeRecord,
  withSettledUses,
} from '../connectors/connectors.ts';
import { grantStands } from '../grants/grants.ts';
import { HttpError, notFound } from '../http/errors.ts';
import {
  connectorResource,
  type ConnectorResource,
  connectorPage,
  connectorSchema,
  firstPage,
  type Page,
} from './api/resources.ts';
import { connectorsQuery, newConnector } from './api/requests.ts';
import { NOT_FOUND, route } from './api/routes.ts';
import type { ManagementServices } from './services.ts';

export const connectorRoutes = [
  route({
    method: 'post',
    path: '/connectors',
    name: 'createConnector',
    summary: 'Creates a connector; its link is what people add to their app.',
    body: newConnector,
    status: 201,
    answer: connectorSchema,
    handle: (services, { body }) => createConnector(services, body),
    location: ({ id }) => `/connectors/${id}`,
  }),
  route({
    method: 'get',
    path: '/connectors',
    name: 'listConnectors',
    summary: 'Lists connectors, the oldest first.',
    query: connectorsQuery,
    answer: connectorPage,
    handle: (services, { query }) => listConnectors(services, query),
  }),
  route({
    method: 'get',
    path: '/connectors/:id',
    name: 'showConnector',
    summary: 'Shows a connector.',
    answer: connectorSchema,
    refusals: NOT_FOUND,
    handle: (services, { id }) => showConnector(services, id),
  }),
  route({
    method: 'delete',
    path: '/connectors/:id',
    name: 'revokeConnector',
    summary: 'Revokes a connector: whatever is connected through it is refused at once.',
    answer: connectorSchema,
    refusals: NOT_FOUND,
    handle: (services, { id }) => revokeConnector(services, id),
  }),
  route({
    method: 'post',
    path: '/connectors/:id/delete',
    name: 'deleteConnector',
    summary: 'Forgets a connector that was revoked or has expired.',
    answer: connectorSchema,
    refusals: { ...NOT_FOUND, 409: 'it still works' },
    handle: (services, { id }) => deleteConnector(services, id),
  }),
];

export async function createConnector(
  services: ManagementServices,
  wanted: NewConnector,
): Promise<ConnectorResource> {
  const connector = await createRecord(services.store, wanted, services.now());
  await record(services, 'connector_created', connector.id);
  return document(services, connector);
}

type PageQuery = { limit: number; after?: string | undefined };

/** The next page begins after a moment and an id, whether or not that connector is still there. */
export async function listConnectors(
  services: ManagementServices,
  { limit, after }: PageQuery,
): Promise<Page<ConnectorResource>> {
  const all = await listRecords(services.store);
  const rest = after === undefined ? all : all.filter((connector) => isAfter(connector, after));
  const { items, next } = firstPage(rest, limit);
  const last = items.at(-1);
  return {
    items: await Promise.all(items.map((item) => document(services, item))),
    ...(next === undefined || !last ? {} : { next: placeOf(last) }),
  };
}

function placeOf({ createdAt, id }: Connector): string {
  return `${createdAt}-${id}`;
}

function isAfter({ createdAt, id }: Connector, place: string): boolean {
  const [moment, last = ''] = place.split('-');
  return createdAt > Number(moment) || (createdAt === Number(moment) && id > last);
}

export async function showConnector(
  services: ManagementServices,
  id: string,
): Promise<ConnectorResource> {
  return document(services, await requireConnector(services, id));
}

export async function revokeConnector(
  services: ManagementServices,
  id: string,
): Promise<ConnectorResource> {
  const revocation = await revokeRecord(services.store, id, services.now());
  if (!revocation) throw unknownConnector();
  const { connector, first } = revocation;
  if (first) await record(services, 'connector_revoked', connector.id);
  return document(services, connector);
}

export async function deleteConnector(
  services: ManagementServices,
  id: string,
): Promise<ConnectorResource> {
  requireOver(await requireConnector(services, id), services.now());
  const connector = await deleteRecord(services.store, id);
  if (!connector) throw unknownConnector();
  await record(services, 'connector_deleted', id);
  return document(services, connector);
}

async function document(
  { store, resourceUrl, lifetimes, now }: ManagementServices,
  connector: Connector,
): Promise<ConnectorResource> {
  const stands = (grantId: string) => grantStands(store, grantId, lifetimes, now());
  return connectorResource(await withSettledUses(connector, stands), resourceUrl, now());
}

async function requireConnector({ store }: ManagementServices, id: string): Promise<Connector> {
  const connector = await findConnector(store, id);
  if (!connector) throw unknownConnector();
  return connector;
}

/** A slip of the hand cuts nobody off, and people are told for a while that the link was revoked before it is unknown. */
function requireOver(connector: Connector, now: number): void {
  if (!isUsable(connector, now)) return;
  const message = 'this connector still works: revoke it first, then delete it';
  throw new HttpError(409, 'still_in_use', message);
}

function unknownConnector(): HttpError {
  return notFound('there is no connector with this id');
}

async function record({ store, by, now }: ManagementServices, event: string, connector: string) {
  await recordAudit(store, { event, connector, by, outcome: 'done' }, now());
}
