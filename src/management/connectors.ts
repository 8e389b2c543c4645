import type { ProviderSettings } from '../accounts/entitlement.ts';
import { recordAudit } from '../audit/audit.ts';
import { distinctRules, loggableAudienceText } from '../connectors/audience.ts';
import { connectLink } from '../connectors/connect-link.ts';
import { type Connector, connectorState, isUsable } from '../connectors/connector.ts';
import {
  createConnector as createRecord,
  deleteConnector as deleteRecord,
  findConnector,
  listConnectors as listRecords,
  type NewConnector,
  revokeConnector as revokeRecord,
  withCommittedUses,
} from '../connectors/connectors.ts';
import { grantLifetimes } from '../grants/grant-lifetime.ts';
import { isGrantActive } from '../grants/grants.ts';
import { HttpError, notFound } from '../http/errors.ts';
import {
  identitySourcesOf,
  audienceIssue,
  type AudienceRule,
  withProviderOfGroup,
} from '../settings/entitlements.ts';
import type { ConnectorsQuery } from './api/requests.ts';
import type { ConnectorResource, Page } from './api/resources.ts';
import { connectorResource, firstPage, isoTime } from './representations.ts';
import type { ManagementContext } from './context.ts';
import { searchFor } from './search.ts';
import { requireUpstream } from './upstreams.ts';

export async function createConnector(
  management: ManagementContext,
  connector: NewConnector,
): Promise<ConnectorResource> {
  const { services, settings } = management;
  const { audience, ...others } = connector;
  const wanted = {
    ...others,
    ...requireUpstream(settings, connector.upstream),
    ...(audience ? { audience: requireAudience(settings, audience) } : {}),
  };
  const created = await createRecord(services.store, wanted, services.now());
  await record(management, 'connector_created', created);
  return resource(management, created);
}

/** Returns the rules to store. Throws HttpError 400. */
function requireAudience(
  settings: ProviderSettings,
  rules: readonly AudienceRule[],
): AudienceRule[] {
  const issues = audienceIssues(settings, rules);
  if (issues.length > 0) throw new HttpError(400, 'invalid_request', issues.join('; '));
  const identitySources = identitySourcesOf(settings);
  return distinctRules(rules.map((rule) => withProviderOfGroup(rule, identitySources)));
}

/** Describes every rule that does not fit the identity providers. */
export function audienceIssues(
  settings: ProviderSettings,
  rules: readonly AudienceRule[] = [],
): string[] {
  const identitySources = identitySourcesOf(settings);
  return rules.flatMap((rule, n) => {
    const [member, expected] = audienceIssue(rule, identitySources) ?? [];
    return member === undefined ? [] : [`audience.${n}.${member}: ${expected}`];
  });
}

/** The cursor is a creation time and an id, so it stays valid if that connector is deleted. */
export async function listConnectors(
  management: ManagementContext,
  { limit, after, q, state }: ConnectorsQuery,
): Promise<Page<ConnectorResource>> {
  const { settings, services } = management;
  const found = searchFor(q);
  // Each link has words such as "connect" in it.
  const isLink = q?.includes('/') ?? false;
  const all = (await listRecords(services.store)).filter(
    (connector) =>
      found([
        connector.name,
        isLink ? connectLink(settings.resourceUrl, connector.id) : connector.id,
      ]) &&
      (state === undefined || connectorState(connector, services.now(), settings) === state),
  );
  const rest = after === undefined ? all : all.filter((connector) => isAfter(connector, after));
  const { items, next } = firstPage(rest, limit);
  const last = items.at(-1);
  return {
    items: await Promise.all(items.map((item) => resource(management, item))),
    ...(next === undefined || !last ? {} : { next: cursorOf(last) }),
  };
}

function cursorOf({ createdAt, id }: Connector): string {
  return `${createdAt}-${id}`;
}

function isAfter({ createdAt, id }: Connector, cursor: string): boolean {
  const [time, lastId = ''] = cursor.split('-');
  return createdAt > Number(time) || (createdAt === Number(time) && id > lastId);
}

export async function showConnector(
  management: ManagementContext,
  id: string,
): Promise<ConnectorResource> {
  return resource(management, await requireConnector(management, id));
}

export async function revokeConnector(
  management: ManagementContext,
  id: string,
): Promise<ConnectorResource> {
  const { services } = management;
  const revocation = await revokeRecord(services.store, id, services.now());
  if (!revocation) throw unknownConnector();
  const { connector, first } = revocation;
  if (first) await record(management, 'connector_revoked', connector);
  return resource(management, connector);
}

export async function deleteConnector(
  management: ManagementContext,
  id: string,
): Promise<ConnectorResource> {
  const { services } = management;
  requireUnusable(management, await requireConnector(management, id));
  const connector = await deleteRecord(services.store, id);
  if (!connector) throw unknownConnector();
  await record(management, 'connector_deleted', connector);
  return resource(management, connector);
}

async function resource(
  { settings, services: { store, now } }: ManagementContext,
  connector: Connector,
): Promise<ConnectorResource> {
  const lifetimes = grantLifetimes(settings.lifetimes);
  const isActive = (grantId: string) => isGrantActive(store, grantId, lifetimes, now());
  return connectorResource(await withCommittedUses(connector, isActive), settings, now());
}

async function requireConnector(
  { services: { store } }: ManagementContext,
  id: string,
): Promise<Connector> {
  const connector = await findConnector(store, id);
  if (!connector) throw unknownConnector();
  return connector;
}

/** Prevents deleting a working connector by mistake. People also learn that a link is revoked before it becomes unknown. */
function requireUnusable({ settings, services }: ManagementContext, connector: Connector): void {
  if (!isUsable(connector, services.now(), settings)) return;
  const message = 'this connector still works: revoke it before you delete it';
  throw new HttpError(409, 'still_in_use', message);
}

function unknownConnector(): HttpError {
  return notFound('there is no connector with this id');
}

async function record(
  { services, by }: ManagementContext,
  event: string,
  { id, name, level, upstream, maxUses, expiresAt, audience }: Connector,
) {
  const properties = {
    name,
    level,
    upstream,
    maxUses,
    ...(expiresAt === undefined ? {} : { expiresAt: isoTime(expiresAt) }),
    ...(audience ? { audience: audience.map(loggableAudienceText) } : {}),
  };
  const item = { event, connector: id, by, arguments: properties, outcome: 'done' };
  await recordAudit(services, item);
}
