// The connections that would stop or get a lower level if a connector or the settings were changed.
import type { Connector } from '../links/connector.ts';
import { findConnector } from '../links/connectors.ts';
import { isAtLeast, isLevel, type Levels } from '../permission-levels.ts';
import type { Connection } from './connection.ts';
import {
  connectionReader,
  type ConnectionSettings,
  type Reading,
  storedGrants,
} from './connections.ts';
import { isLive, type StoredGrant } from './grant-record.ts';
import type { Reason } from './reasons.ts';

/** A connection as it is, and as it would be. `endsAt`, in seconds since the epoch: when it would end, if not at once. */
export type AffectedConnection = {
  before: Connection;
  after: Connection;
  endsAt?: number;
} & ToolLoss;

/** What a connection that goes on can no longer use. Empty if it can use as much. */
export type ToolLoss = {
  /** The names of tools that it could use. */
  lostTools?: string[];
  /** It may lose what is not known by name: the tools of a server that was not read, resources or prompts. */
  mayLoseUnknown?: true;
};

export type ToolLosses = (
  stored: StoredGrant,
  before: Connection,
  after: Connection,
) => Promise<ToolLoss>;

/**
 * `connector` is one that changes, as it is or would be; without it, all connectors count as they are. `lostClients` are those that are no longer
 * known.
 */
type Situation = {
  settings: ConnectionSettings;
  connector?: Connector;
  lostClients?: ReadonlySet<string>;
};

/** Reads `limit` connections: `isAll` is false if there are more. */
export async function affectedConnections(
  services: Reading,
  {
    before,
    after,
    limit,
    toolLosses,
  }: { before: Situation; after: Situation; limit: number; toolLosses: ToolLosses },
): Promise<{ items: AffectedConnection[]; isAll: boolean; read: number }> {
  const items: AffectedConnection[] = [];
  let count = 0;
  const [readBefore, readAfter] = [readerIn(services, before), readerIn(services, after)];
  const filter = { connector: after.connector?.id };
  const endsAt = earlierEnd(before.connector, after.connector);
  for await (const { id, stored } of storedGrants(before.settings, services, filter)) {
    if (count === limit) return { items, isAll: false, read: count };
    count += 1;
    const [was, read] = await Promise.all([readBefore(id, stored), readAfter(id, stored)]);
    const isLost = works(read) && after.lostClients?.has(read.client.id);
    const becomes = isLost ? ({ ...read, ...CLIENT_GONE } as const) : read;
    const loss = works(becomes) ? await toolLosses(stored, was, becomes) : {};
    const goesOn = works(becomes) && !stopsAtOnce(was, becomes);
    if (endsAt !== undefined && goesOn && lastsLonger(stored, endsAt))
      items.push({ before: was, after: endedBy(becomes, 'connector_expired'), endsAt, ...loss });
    else if (losesTools(loss) || isLess(before.settings.levels, was, becomes))
      items.push({ before: was, after: becomes, ...loss });
  }
  return { items, isAll: true, read: count };
}

/** It works again when the client is registered again. */
const CLIENT_GONE = { state: 'refused', reason: 'client_gone' } as const;

/** When the connector would expire, if that is earlier than before. */
function earlierEnd(before?: Connector, after?: Connector): number | undefined {
  const { expiresAt } = after ?? {};
  if (expiresAt === undefined || expiresAt >= (before?.expiresAt ?? Infinity)) return undefined;
  return expiresAt;
}

/** However often its client renews it. */
function lastsLonger(stored: StoredGrant, time: number): boolean {
  return isLive(stored) && stored.grant.exp > time;
}

export function endedBy(connection: Connection, reason: Reason): Connection {
  return { ...connection, state: 'ended', reason };
}

function readerIn(services: Reading, { settings, connector }: Situation) {
  return connectionReader(settings, services, {
    readConnector: async (id) =>
      connector?.id === id ? connector : findConnector(services.store, id),
  });
}

/** Whether the connection has a lower level, or works less, than before. */
export function isLess(levels: Levels, before: Connection, after: Connection): boolean {
  const hasLowerLevel =
    before.level !== undefined &&
    after.level !== undefined &&
    !(isLevel(levels, after.level) && isAtLeast(levels, after.level, before.level));
  return stopsAtOnce(before, after) || (usability(before) > 0 && hasLowerLevel);
}

/** Also if it works again once somebody resumes its connector. */
export function stopsAtOnce(before: Connection, after: Connection): boolean {
  return usability(after) < usability(before);
}

export function losesTools({ lostTools, mayLoseUnknown }: ToolLoss): boolean {
  return lostTools !== undefined || mayLoseUnknown === true;
}

export function works(connection: Connection): boolean {
  return usability(connection) > 0;
}

/** 0 if it does not work, 1 if it works again without the person once somebody resumes its connector, 2 if it works. */
function usability({ state, reason }: Connection): number {
  if (state === 'active' || state === 'pending') return 2;
  return reason === 'connector_paused' ? 1 : 0;
}
