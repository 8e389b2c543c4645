// The connections that end or get a lower level when a file is applied.
import { findClient } from '../../clients/clients.ts';
import type { RuleSubject } from '../../clients/rules.ts';
import { type AffectedConnection, affectedConnections } from '../../connections/affected.ts';
import type { Connection } from '../../connections/connection.ts';
import { listConnections } from '../../connections/connections.ts';
import { connectedClients } from '../../connections/grant-lists.ts';
import type { Reason } from '../../connections/reasons.ts';
import type { Connector } from '../../links/connector.ts';
import type { ManagementContext } from '../context.ts';
import type { Found } from './machines.ts';

type Changes = {
  connectors: readonly { before: Connector; after: Connector }[];
  revoked: readonly Found[];
  /** Their key, and so their connection. */
  replaced: readonly Found[];
  blocks: readonly RuleSubject[];
};

/** Of all changes together. */
const MAX_READ = 50_000;
const BATCH = 100;

/** Names each connection once. `isAll` is false if there are too many to read. */
export async function lostConnections(
  management: ManagementContext,
  { connectors, revoked, replaced, blocks }: Changes,
): Promise<{ items: AffectedConnection[]; isAll: boolean }> {
  const { settings, services } = management;
  const lost = new Map<string, AffectedConnection>();
  const add = (item: AffectedConnection) => {
    const { after } = lost.get(item.before.id) ?? item;
    // What ends does not come back.
    lost.set(item.before.id, after.state === 'ended' ? { ...item, after } : item);
  };
  const addEnded = (before: Connection, reason: Reason) =>
    add({ before, after: { ...before, state: 'ended', reason } });
  let left = MAX_READ;
  let isAll = true;
  // In the order in which they end.
  for await (const { item } of blockedConnections(management, blocks)) {
    isAll = left > 0;
    if (!isAll) break;
    left -= 1;
    if (item.state !== 'ended') addEnded(item, 'client_blocked');
  }
  for (const { connection } of replaced) addEnded(connection, 'key_replaced');
  for (const { connection } of revoked) addEnded(connection, 'client_revoked');
  for (const { before, after } of connectors) {
    const found = await affectedConnections(services, {
      before: { settings, connector: before },
      after: { settings, connector: after },
      limit: left,
    });
    left -= found.read;
    isAll &&= found.isAll;
    for (const item of found.items) add(item);
  }
  return { items: [...lost.values()], isAll };
}

/** Yields the connections of the clients that these rules block. */
async function* blockedConnections(
  { settings, services }: ManagementContext,
  blocks: readonly RuleSubject[],
) {
  if (blocks.length === 0) return;
  const rules = blocks.map((block) => ({ ...block, createdAt: 0 }));
  const { store, now } = services;
  const lifetime = settings.lifetimes.refreshTokenAbsolute;
  const ids = await connectedClients(store, { lifetime, now: now() });
  for (let from = 0; from < ids.length; from += BATCH) {
    const batch = ids.slice(from, from + BATCH);
    const found = batch.map((id) => findClient(store, id, settings.clients, undefined, rules));
    for (const client of await Promise.all(found))
      if (client?.state === 'blocked')
        yield* listConnections(settings, services, { client: client.id });
  }
}
