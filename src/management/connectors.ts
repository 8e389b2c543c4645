import type { KeyObject } from 'node:crypto';
import { listAccounts } from '../people/accounts.ts';
import { isInAudience, type ProviderSettings } from '../people/entitlement.ts';
import { type ChangeItem, recordChange } from '../audit/recorded-change.ts';
import { audienceDigest, distinctRules, loggableAudienceText } from '../links/audience.ts';
import { connectLink } from '../links/connect-link.ts';
import {
  changedConnector,
  type Connector as Stored,
  type ConnectorChange,
  connectorState,
  isUsable,
  recordedState,
  redeemerOf,
  type Use,
} from '../links/connector.ts';
import {
  type ConnectorUpdate,
  addConnector,
  deleteConnector,
  findConnector,
  listConnectors,
  newConnector,
  revokeConnector,
  updateConnector,
  withCommittedUses,
} from '../links/connectors.ts';
import { affectedConnections } from '../connections/affected.ts';
import { listConnections } from '../connections/connections.ts';
import { grantLifetimes } from '../connections/grant-lifetime.ts';
import { isGrantActive } from '../connections/grants.ts';
import { HttpError, notFound } from '../http/errors.ts';
import {
  identitySourcesOf,
  audienceIssue,
  type AudienceRule,
  type Via,
  withProviderOfGroup,
} from '../settings/entitlements.ts';
import { isAtLeast } from '../permission-levels.ts';
import { type Handlers, type ManagementContext, requireMatch } from './context.ts';
import { changedMembers, firstPage, isoTime, represent } from './represent.ts';
import {
  type Changeable,
  changeableSchema,
  type Connector,
  connectorEtag,
  type connectorOperations,
  connectorSchema,
  type ShownConnector,
} from './resources/connector.ts';
import { toolLosses } from './lost-tools.ts';
import { openedBy } from './opened-by.ts';
import { affectedResources } from './resources/affected.ts';
import { searchFor } from './search.ts';
import { requireUpstream } from './upstreams.ts';

export const connectorHandlers: Handlers<keyof typeof connectorOperations> = {
  async createConnector(management, { body }) {
    const { services, settings } = management;
    const wanted = {
      ...withStoredAudience(settings, body),
      ...requireUpstream(settings, body.upstream),
    };
    const connector = newConnector(wanted, services.now());
    const item = itemOf(management, 'connector_created', connector);
    const created = await recordChange(services, item, {
      make: () => addConnector(services.store, connector),
      itemOf: () => item,
    });
    return shownResource(management, created);
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
    shownResource(management, await requireConnector(management, id)),

  /** A dry run changes nothing, and says which connections would stop or have a lower level. */
  async updateConnector(management, { id, query, body, ifMatch }) {
    const change = withStoredAudience(management.settings, body);
    const current = await requireConnector(management, id);
    const holders = await holdersFor(management, current, change);
    const next = (before: Stored) =>
      nextConnector(management, before, change, { holders, ifMatch });
    const wanted = { before: current, after: next(current) };
    if (query.dryRun === 'true') return previewUpdate(management, wanted);
    const { services } = management;
    const update = await recordChange(services, changedItem(management, wanted), {
      make: () => updateConnector(services.store, id, next),
      itemOf: (made) =>
        made && made.after !== made.before ? changedItem(management, made) : undefined,
    });
    if (!update) throw unknownConnector();
    return {
      ...(await resource(management, update.after)),
      ...(await openedBy(management, 'connector', update.after)),
    };
  },

  async revokeConnector(management, { id }) {
    const { services } = management;
    const item = (connector: Stored) => itemOf(management, 'connector_revoked', connector);
    const begun = item(await requireConnector(management, id));
    const revocation = await recordChange(services, begun, {
      make: () => revokeConnector(services.store, id, services.now()),
      itemOf: (made) => (made?.first ? item(made.connector) : undefined),
    });
    if (!revocation) throw unknownConnector();
    return resource(management, revocation.connector);
  },

  async deleteConnector(management, { id }) {
    const { services } = management;
    const current = await requireConnector(management, id);
    requireUnusable(management, current);
    const item = (deleted: Stored) => itemOf(management, 'connector_deleted', deleted);
    const connector = await recordChange(services, item(current), {
      make: () => deleteConnector(services.store, id),
      itemOf: (deleted) => deleted && item(deleted),
    });
    if (!connector) throw unknownConnector();
    return resource(management, connector);
  },
};

/** Returns what a change would make of the connector: the same record if nothing. Throws HttpError as the change would. */
export function previewConnector(
  management: ManagementContext,
  before: Stored,
  wanted: ConnectorChange,
): Stored {
  const change = withStoredAudience(management.settings, wanted);
  return nextConnector(management, before, change, { holders: [], ifMatch: undefined });
}

/** Returns the same record if nothing changes. Throws HttpError 409 if the connector has ended, 412 for another version, and 400 for the suggested level. */
function nextConnector(
  { settings: { levels }, services }: ManagementContext,
  before: Stored,
  change: ConnectorChange,
  { holders, ifMatch }: { holders: readonly Use[]; ifMatch: string | undefined },
): Stored {
  const state = recordedState(before, services.now());
  if (state === 'revoked' || state === 'expired')
    throw new HttpError(
      409,
      'connector_ended',
      `this connector has ended (${state}): create another`,
    );
  requireMatch(ifMatch, etagOf(before));
  const { level = before.level, suggestedLevel } = change;
  if (suggestedLevel && !isAtLeast(levels, level, suggestedLevel))
    throw new HttpError(
      400,
      'invalid_request',
      'suggestedLevel: at most the level of the connector',
    );
  const after = changedConnector(levels, before, change, holders);
  return etagOf(after) === etagOf(before) ? before : after;
}

export function etagOf(connector: Stored): string {
  return connectorEtag(represent(changeableSchema, connector));
}

/** As many as a connector can have uses. */
const MAX_HOLDERS = 10_000;

/** The uses of those who are connected, for a connector that gets its first limit: to connect again, they need no other use. */
async function holdersFor(
  { settings, services }: ManagementContext,
  { id, maxUses }: Stored,
  change: ConnectorChange,
): Promise<Use[]> {
  const holders = new Map<string, Use>();
  if (maxUses !== undefined || !change.maxUses) return [];
  for await (const { item } of listConnections(settings, services, { connector: id })) {
    if (item.state !== 'active' && item.state !== 'refused') continue;
    if (holders.size === MAX_HOLDERS) break;
    const holder = redeemerOf(item.account.id, item.client.id);
    const { grantIds = [] } = holders.get(holder) ?? {};
    holders.set(holder, { holder, grantIds: [...grantIds, item.id] });
  }
  return [...holders.values()];
}

/** People wait for the answer. */
const MAX_AFFECTED_READ = 5000;

async function previewUpdate(management: ManagementContext, { before, after }: ConnectorUpdate) {
  const { settings, services } = management;
  const change = {
    before: { settings, connector: before },
    after: { settings, connector: after },
  };
  const found = await affectedConnections(services, {
    ...change,
    limit: MAX_AFFECTED_READ,
    toolLosses: toolLosses(services, change),
  });
  return {
    ...(await resource(management, after)),
    ...(await openedBy(management, 'connector', after)),
    ...affectedResources(found),
  };
}

function changedItem(
  { services, by }: ManagementContext,
  { before, after }: ConnectorUpdate,
): ChangeItem {
  const changed = changedMembers(
    represent(changeableSchema, before),
    represent(changeableSchema, after),
  );
  return {
    event: 'connector_changed',
    connector: after.id,
    by,
    arguments: {
      name: after.name,
      before: loggable(changed.before),
      after: loggable(changed.after),
      ...addressDigests(services.keys.accountIds, changed.after.audience),
    },
  };
}

/** So that a replay after a restore can tell whom the rules with an address are about. */
function addressDigests(key: KeyObject, audience: Changeable['audience'] = []): object {
  const rules = audience.filter(({ email }) => email !== undefined);
  return rules.length === 0
    ? {}
    : { audienceDigests: rules.map((rule) => audienceDigest(key, rule)) };
}

function loggable({ audience, ...others }: Partial<Changeable>): object {
  return audience ? { ...others, audience: audience.map(loggableAudienceText) } : others;
}

/** With the rules of the audience as they are stored. Throws HttpError 400. */
function withStoredAudience<Wanted extends { audience?: AudienceRule[] | null | undefined }>(
  settings: ProviderSettings,
  wanted: Wanted,
): Wanted {
  const { audience } = wanted;
  return audience ? { ...wanted, audience: requireAudience(settings, audience) } : wanted;
}

/** Returns the rules to store. Throws HttpError 400. */
export function requireAudience(
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

/** People who are compared with an audience. */
const MAX_COMPARED = 2000;

async function shownResource(
  management: ManagementContext,
  stored: Stored,
): Promise<ShownConnector> {
  const { settings, services } = management;
  const shown = {
    ...(await resource(management, stored)),
    ...(await openedBy(management, 'connector', stored)),
  };
  if (!stored.audience) return shown;
  const people = { matched: 0, known: 0 };
  for await (const { account } of listAccounts(services.store)) {
    if (!account || account.forgottenAt !== undefined) continue;
    const isIn = (via: Via) => isInAudience(settings, stored, account, via);
    people.known += 1;
    if (isIn('sign-in') || isIn('id-jag')) people.matched += 1;
    if (people.known === MAX_COMPARED) break;
  }
  return { ...shown, people };
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

function itemOf(
  { by }: ManagementContext,
  event: string,
  { id, key, name, level, upstream, maxUses, calls, expiresAt, audience, tools, paused }: Stored,
): ChangeItem {
  const properties = {
    key,
    name,
    level,
    upstream,
    maxUses,
    calls,
    ...(expiresAt === undefined ? {} : { expiresAt: isoTime(expiresAt) }),
    ...(audience ? { audience: audience.map(loggableAudienceText) } : {}),
    ...(tools ? { tools } : {}),
    paused,
  };
  return { event, connector: id, by, arguments: properties };
}
