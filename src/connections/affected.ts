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

/** A connection as it is, and as it would be. */
export type AffectedConnection = { before: Connection; after: Connection };

/** `connector` is one that changes, as it is or would be; without it, all connectors count as they are. */
type Situation = { settings: ConnectionSettings; connector?: Connector };

/** Reads `limit` connections: `isAll` is false if there are more. */
export async function affectedConnections(
  services: Reading,
  { before, after, limit }: { before: Situation; after: Situation; limit: number },
): Promise<{ items: AffectedConnection[]; isAll: boolean; read: number }> {
  const items: AffectedConnection[] = [];
  let read = 0;
  const [readBefore, readAfter] = [readerIn(services, before), readerIn(services, after)];
  const filter = { connector: after.connector?.id };
  for await (const { id, stored } of storedGrants(before.settings, services, filter)) {
    if (read === limit) return { items, isAll: false, read };
    read += 1;
    const [was, becomes] = await Promise.all([readBefore(id, stored), readAfter(id, stored)]);
    if (isLess(before.settings.levels, was, becomes)) items.push({ before: was, after: becomes });
  }
  return { items, isAll: true, read };
}

function readerIn(services: Reading, { settings, connector }: Situation) {
  return connectionReader(settings, services, async (id) =>
    connector?.id === id ? connector : findConnector(services.store, id),
  );
}

function isLess(levels: Levels, before: Connection, after: Connection): boolean {
  const hasLowerLevel =
    before.level !== undefined &&
    after.level !== undefined &&
    !(isLevel(levels, after.level) && isAtLeast(levels, after.level, before.level));
  return usability(after) < usability(before) || (usability(before) > 0 && hasLowerLevel);
}

/** 0 if it does not work, 1 if it works again without the person once somebody resumes its connector, 2 if it works. */
function usability({ state, reason }: Connection): number {
  if (state === 'active' || state === 'pending') return 2;
  return reason === 'connector_paused' ? 1 : 0;
}
