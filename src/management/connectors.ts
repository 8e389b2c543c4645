import type { ProviderSettings } from '../people/entitlement.ts';
import { recordAudit } from '../audit/audit.ts';
import { distinctRules, loggableAudienceText } from '../links/audience.ts';
import { connectLink } from '../links/connect-link.ts';
import { type Connector as Stored, connectorState, isUsable } from '../links/connector.ts';
import {
  createConnector,
  deleteConnector,
  findConnector,
  listConnectors,
  revokeConnector,
  withCommittedUses,
} from '../links/connectors.ts';
import { grantLifetimes } from '../connections/grant-lifetime.ts';
import { isGrantActive } from '../connections/grants.ts';
import { HttpError, notFound } from '../http/errors.ts';
import {
  identitySourcesOf,
  audienceIssue,
  type AudienceRule,
  withProviderOfGroup,
} from '../settings/entitlements.ts';
import type { Handlers, ManagementContext } from './context.ts';
import { firstPage, isoTime, represent } from './represent.ts';
import {
  type Connector,
  type connectorOperations,
  connectorSchema,
} from './resources/connector.ts';
import { searchFor } from './search.ts';
import { requireUpstream } from './upstreams.ts';

export const connectorHandlers: Handlers<keyof typeof connectorOperations> = {
  async createConnector(management, { body: { audience, ...others } }) {
    const { services, settings } = management;
    const wanted = {
      ...others,
      ...requireUpstream(settings, others.upstream),
      ...(audience ? { audience: requireAudience(settings, audience) } : {}),
    };
    const created = await createConnector(services.store, wanted, services.now());
    await record(management, 'connector_created', created);
    return resource(management, created);
  },

  /** The cursor is a creation time and an id, so it stays valid if that connector is deleted. */
  async listConnectors(management, { query: { limit, after, q, state } }) {
    const { settings, services } = management;
    const found = searchFor(q);
    // Each link has words such as "connect" in it.
    const isLink = q?.includes('/') ?? false;
    const all = (await listConnectors(services.store)).filter(
      (connector) =>
        found([
          connector.name,
          isLink ? connectLink(settings.resourceUrl, connector.id) : connector.id,
        ]) &&
        (state === undefined || connectorState(connector, services.now(), settings) === state) &&
        (after === undefined || isAfter(connector, after)),
    );
    const { items, next } = firstPage(all, limit);
    const last = items.at(-1);
    return {
      items: await Promise.all(items.map((item) => resource(management, item))),
      ...(next === undefined || !last ? {} : { next: `${last.createdAt}-${last.id}` }),
    };
  },

  showConnector: async (management, { id }) =>
    resource(management, await requireConnector(management, id)),

  async revokeConnector(management, { id }) {
    const { services } = management;
    const revocation = await revokeConnector(services.store, id, services.now());
    if (!revocation) throw unknownConnector();
    const { connector, first } = revocation;
    if (first) await record(management, 'connector_revoked', connector);
    return resource(management, connector);
  },

  async deleteConnector(management, { id }) {
    requireUnusable(management, await requireConnector(management, id));
    const connector = await deleteConnector(management.services.store, id);
    if (!connector) throw unknownConnector();
    await record(management, 'connector_deleted', connector);
    return resource(management, connector);
  },
};

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

function isAfter({ createdAt, id }: Stored, cursor: string): boolean {
  const [time, lastId = ''] = cursor.split('-');
  return createdAt > Number(time) || (createdAt === Number(time) && id > lastId);
}

async function resource(
  { settings, services: { store, now } }: ManagementContext,
  stored: Stored,
): Promise<Connector> {
  const lifetimes = grantLifetimes(settings.lifetimes);
  const isActive = (grantId: string) => isGrantActive(store, grantId, lifetimes, now());
  const connector = await withCommittedUses(stored, isActive);
  return represent(connectorSchema, {
    ...connector,
    link: connectLink(settings.resourceUrl, connector.id),
    state: connectorState(connector, now(), settings),
    uses: connector.used,
  });
}

async function requireConnector(
  { services: { store } }: ManagementContext,
  id: string,
): Promise<Stored> {
  const connector = await findConnector(store, id);
  if (!connector) throw unknownConnector();
  return connector;
}

/** Prevents deleting a working connector by mistake. People also learn that a link is revoked before it becomes unknown. */
function requireUnusable({ settings, services }: ManagementContext, connector: Stored): void {
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
  { id, name, level, upstream, maxUses, expiresAt, audience }: Stored,
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
