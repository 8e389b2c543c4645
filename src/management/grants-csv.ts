// Connections as CSV, for a review of who has access to what, and by which rule.
import type { Connection } from '../connections/connection.ts';
import { csvLine } from './csv.ts';
import { isoTime } from './represent.ts';

/** The cells of a connection, by the heading of their column. Times are UTC. */
const COLUMNS: Record<string, (connection: Connection) => unknown> = {
  person: ({ account }) => account.name,
  email: ({ account }) => (account.emailVerified ? account.email : undefined),
  account: ({ account }) => account.id,
  app: ({ client }) => client.name,
  clientId: ({ client }) => client.id,
  redirectHost: ({ client }) => client.redirectHost,
  connectorName: ({ connector }) => connector.name,
  connector: ({ connector }) => connector.id,
  level: ({ level }) => level,
  since: ({ createdAt }) => isoTime(createdAt),
  lastUsed: ({ lastUsedAt }) => lastUsedAt && isoTime(Math.floor(lastUsedAt)),
  rule: ({ rule }) => rule,
  state: ({ state }) => state,
  reason: ({ reason }) => reason,
  id: ({ id }) => id,
};

export async function* grantsCsv(connections: AsyncIterable<Connection>): AsyncGenerator<string> {
  yield csvLine(Object.keys(COLUMNS));
  for await (const connection of connections)
    yield csvLine(Object.values(COLUMNS).map((cellOf) => cellOf(connection)));
}
