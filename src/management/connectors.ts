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
  connectorDocument,
  type ConnectorDocument,
  connectorPage,
  connectorSchema,
  firstPage,
  type Page,
} from './api/resources.ts';
import { connectorsQuery, newConnector } from './api/requests.ts';
import { type ManagementTools, NOT_FOUND, route } from './api/routes.ts';

export const connectorRoutes = [
  route({
    method: 'post',
    path: '/connectors',
    name: 'createConnector',
    summary: 'Creates a connector; its link is what people add to their app.',
    body: newConnector,
    status: 201,
    answer: connectorSchema,
    handle: (tools, { body }) => createConnector(tools, body),
    location: ({ id }) => `/connectors/${id}`,
  }),
  route({
    method: 'get',
    path: '/connectors',
    name: 'listConnectors',
    summary: 'Lists connectors, the oldest first.',
    query: connectorsQuery,
    answer: connectorPage,
    handle: (tools, { query }) => listConnectors(tools, query),
  }),
  route({
    method: 'get',
    path: '/connectors/:id',
    name: 'showConnector',
    summary: 'Shows a connector.',
    answer: connectorSchema,
    refusals: NOT_FOUND,
    handle: (tools, { id }) => showConnector(tools, id),
  }),
  route({
    method: 'delete',
    path: '/connectors/:id',
    name: 'revokeConnector',
    summary: 'Revokes a connector: whatever is connected through it is refused at once.',
    answer: connectorSchema,
    refusals: NOT_FOUND,
    handle: (tools, { id }) => revokeConnector(tools, id),
  }),
  route({
    method: 'post',
    path: '/connectors/:id/delete',
    name: 'deleteConnector',
    summary: 'Forgets a connector that was revoked or has expired.',
    answer: connectorSchema,
    refusals: { ...NOT_FOUND, 409: 'it still works' },
    handle: (tools, { id }) => deleteConnector(tools, id),
  }),
];

export async function createConnector(
  tools: ManagementTools,
  wanted: NewConnector,
): Promise<ConnectorDocument> {
  const connector = await createRecord(tools.store, wanted, tools.now());
  await record(tools, 'connector_created', connector.id);
  return document(tools, connector);
}

type PageQuery = { limit: number; after?: string | undefined };

/** The next page begins after a moment and an id, whether or not that connector is still there. */
export async function listConnectors(
  tools: ManagementTools,
  { limit, after }: PageQuery,
): Promise<Page<ConnectorDocument>> {
  const all = await listRecords(tools.store);
  const rest = after === undefined ? all : all.filter((connector) => isAfter(connector, after));
  const { items, next } = firstPage(rest, limit);
  const last = items.at(-1);
  return {
    items: await Promise.all(items.map((item) => document(tools, item))),
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
  tools: ManagementTools,
  id: string,
): Promise<ConnectorDocument> {
  return document(tools, await requireConnector(tools, id));
}

export async function revokeConnector(
  tools: ManagementTools,
  id: string,
): Promise<ConnectorDocument> {
  const revocation = await revokeRecord(tools.store, id, tools.now());
  if (!revocation) throw unknownConnector();
  const { connector, first } = revocation;
  if (first) await record(tools, 'connector_revoked', connector.id);
  return document(tools, connector);
}

export async function deleteConnector(
  tools: ManagementTools,
  id: string,
): Promise<ConnectorDocument> {
  requireOver(await requireConnector(tools, id), tools.now());
  const connector = await deleteRecord(tools.store, id);
  if (!connector) throw unknownConnector();
  await record(tools, 'connector_deleted', id);
  return document(tools, connector);
}

async function document(
  { store, resourceUrl, lifetimes, now }: ManagementTools,
  connector: Connector,
): Promise<ConnectorDocument> {
  const stands = (grantId: string) => grantStands(store, grantId, lifetimes, now());
  return connectorDocument(await withSettledUses(connector, stands), resourceUrl, now());
}

async function requireConnector({ store }: ManagementTools, id: string): Promise<Connector> {
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

async function record({ store, by, now }: ManagementTools, event: string, connector: string) {
  await recordAudit(store, { event, connector, by, outcome: 'done' }, now());
}
