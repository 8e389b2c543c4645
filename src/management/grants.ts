import { findUnused } from '../connections/attempts.ts';
import type { Connection } from '../connections/connection.ts';
import { endConnection, findConnection, listConnections } from '../connections/connections.ts';
import {
  type LimitedCaller,
  limitsOfCaller,
  readUsage,
  resetLimits,
} from '../connections/call-limits.ts';
import { recordChange } from '../audit/recorded-change.ts';
import { isWorkloadSubject } from '../settings/workloads.ts';
import { isMachineSubject } from '../connections/machine-subject.ts';
import { findNamed } from '../people/accounts.ts';
import { HttpError, notFound } from '../http/errors.ts';
import {
  endKeptOut,
  findKeptOut,
  keepOut,
  type KeptOut as StoredKeptOut,
  keptOutBy,
} from '../connections/kept-out.ts';
import { reasonText } from '../connections/reasons.ts';
import type { ApiRequest } from './api/operations.ts';
import type { Handlers, ManagementContext } from './context.ts';
import { grantsCsv } from './grants-csv.ts';
import { isoTime, represent, wholeSecond } from './represent.ts';
import { representLimits } from './resources/call-limit.ts';
import {
  type Grant,
  type grantOperations,
  grantSchema,
  type ShownGrant,
} from './resources/grant.ts';
import { type KeptOut, keptOutSchema } from './resources/kept-out.ts';
import { findById, scannedBy, scanPage, searchFor, untilFound } from './search.ts';

/** Fewer than in other lists, because a connection is read with its person. */
const MAX_SCANNED = 80;
/** A search lists the connections of so many people first. */
const MAX_PEOPLE = 50;

export const grantHandlers: Handlers<keyof typeof grantOperations> = {
  async listGrants(management, { query: { limit, after, q, level, ...filter } }) {
    const { settings, services } = management;
    const known = await findById(management, q, (id) => findConnection(settings, services, id));
    if (known) return { items: await resources(management, [known]) };
    const found = searchFor(q);
    const { state, ...owner } = filter;
    const people = q ? await findNamed(services.store, q, MAX_PEOPLE) : [];
    const { matches, isEnough, wasCut } = untilFound(
      management,
      (connection: Connection) =>
        (state === undefined || connection.state === state) &&
        (level === undefined || connection.level === level) &&
        found(textsOf(connection)),
    );
    const { items, next } = await scanPage(
      listConnections(settings, services, owner, { after, people, isEnough }),
      matches,
      { limit, scanned: scannedBy(management, MAX_SCANNED), wasCut },
    );
    return { items: await resources(management, items), next };
  },

  exportGrants: async (management, { query }) => grantsCsv(matching(management, query)),

  showGrant: async (management, { id }) =>
    shownResource(management, await requireConnection(management, id)),

  async resetGrantLimits(management, { id }) {
    const { settings, services, by } = management;
    const connection = await requireConnection(management, id);
    const item = {
      event: 'limits_reset',
      account: connection.account.id,
      clientId: connection.client.id,
      connector: connection.connector.id,
      grantId: id,
      by,
    };
    const limits = limitsOfCaller(settings, limitedCaller(connection));
    await recordChange(services, item, {
      make: () => resetLimits(services.store, limits),
      itemOf: () => item,
    });
    return shownResource(management, connection);
  },

  async revokeGrant(management, { id, query: { keepOut: isKeptOut } }) {
    const { settings, services, by } = management;
    const connection = await requireConnection(management, id);
    if (isKeptOut === 'true') {
      if (isMachineSubject(connection.account.id))
        throw new HttpError(400, 'invalid_request', 'only an app of a person can be kept out');
      const keptOut = await keptOutBy(settings, services, connection, by);
      await keepOut(settings, services, keptOut);
    }
    await endConnection(services, connection, 'revoked_by_administrator', by);
    return resource(management, await requireConnection(management, id));
  },

  async allowGrant({ services, by }, { id }) {
    const keptOut = await findKeptOut(services.store, id);
    if (!keptOut) throw notFound('no app is kept out with this grant');
    await endKeptOut(services, keptOut, by);
    return keptOutResource(keptOut);
  },
};

/** All that match, with the people that a search finds first. */
async function* matching(
  { settings, services }: ManagementContext,
  { q, level, ...filter }: ApiRequest<'exportGrants'>['query'],
): AsyncGenerator<Connection> {
  const found = searchFor(q);
  for await (const { item: connection } of listConnections(settings, services, filter))
    if ((level === undefined || connection.level === level) && found(textsOf(connection)))
      yield connection;
}

type RecentGrants = { open: Grant[]; ended: Grant[]; isAll: boolean };

const MAX_RECENT = 100;
/** Read for one page. The open ones of a record with more ended ones than that are in the list of connections. */
const MAX_RECENT_READ = 300;

/** Returns the newest grants of one record, at most 100 of each kind. Without `isAll` there are more. */
export async function listRecentGrants(
  management: ManagementContext,
  filter: { account?: string; client?: string; connector?: string },
): Promise<RecentGrants> {
  const { settings, services } = management;
  const open: Connection[] = [];
  const ended: Connection[] = [];
  let read = 0;
  const newestFirst = true;
  for await (const { item: connection } of listConnections(settings, services, filter, {
    newestFirst,
  })) {
    if (read === MAX_RECENT_READ || open.length > MAX_RECENT) break;
    read += 1;
    (connection.state === 'ended' ? ended : open).push(connection);
  }
  const newest = (connections: Connection[]) =>
    resources(
      management,
      connections
        .toSorted((a, b) => (b.endedAt ?? b.createdAt) - (a.endedAt ?? a.createdAt))
        .slice(0, MAX_RECENT),
    );
  const isAll = read < MAX_RECENT_READ && Math.max(open.length, ended.length) <= MAX_RECENT;
  return { open: await newest(open), ended: await newest(ended), isAll };
}

function textsOf({ id, connector, account, client }: Connection): (string | undefined)[] {
  const email = account.emailVerified ? account.email : undefined;
  const person = [account.name, email, account.id];
  return [id, client.name, client.id, client.redirectHost, connector.name, connector.id, ...person];
}

async function requireConnection(
  { settings, services }: ManagementContext,
  id: string,
): Promise<Connection> {
  const connection = await findConnection(settings, services, id);
  if (!connection) throw unknownGrant();
  return connection;
}

async function shownResource(
  management: ManagementContext,
  connection: Connection,
): Promise<ShownGrant> {
  const { settings, services } = management;
  const { store, now } = services;
  const limits =
    connection.state === 'ended' ? [] : limitsOfCaller(settings, limitedCaller(connection));
  const used = await readUsage(store.callWindows, limits);
  const keptOut = await findKeptOut(store, connection.id);
  return {
    ...(await resource(management, connection)),
    limits: representLimits(used, now()),
    ...(keptOut ? { keptOutSince: isoTime(keptOut.since) } : {}),
  };
}

function limitedCaller({ id, account, client, connector, calls }: Connection): LimitedCaller {
  const isMachine = isMachineSubject(account.id);
  return {
    accountId: isMachine ? undefined : account.id,
    connection: id,
    connector,
    [isWorkloadSubject(account.id) ? 'workload' : 'machine']: isMachine
      ? { id: client.id, calls }
      : undefined,
    upstream: connector.upstream,
  };
}

async function resource(management: ManagementContext, connection: Connection): Promise<Grant> {
  const [grant] = await resources(management, [connection]);
  if (!grant) throw new Error('a connection has a resource');
  return grant;
}

async function resources(
  { services: { store, now } }: ManagementContext,
  connections: readonly Connection[],
): Promise<Grant[]> {
  const ids = connections.filter(({ state }) => state !== 'ended').map(({ id }) => id);
  const unused = await findUnused(store, ids, now());
  return connections.map((each) => grantOf(each, unused.has(each.id)));
}

function grantOf(connection: Connection, unused: boolean): Grant {
  const { reason, connector, account, client, refusals } = connection;
  return represent(grantSchema, {
    ...connection,
    ...(unused ? { unused } : {}),
    explanation: reason && reasonText(reason),
    connector: connector.id,
    connectorName: connector.name,
    account: account.id,
    accountName: account.name,
    accountEmail: account.email,
    accountEmailVerified: account.emailVerified,
    clientId: client.id,
    clientName: client.name,
    redirectHost: client.redirectHost,
    lastUsedAt: wholeSecond(connection.lastUsedAt),
    expiresAt: wholeSecond(connection.expiresAt),
    endedAt: wholeSecond(connection.endedAt),
    refusals: refusals.map(({ at, reason: code }) => ({
      time: isoTime(at),
      reason: code,
      explanation: reasonText(code),
    })),
  });
}

export function keptOutResource(keptOut: StoredKeptOut): KeptOut {
  return represent(keptOutSchema, { ...keptOut, clientName: keptOut.name });
}

function unknownGrant(): HttpError {
  return notFound('there is no grant with this id; ended grants are kept for 30 days');
}
