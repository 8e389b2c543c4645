// The connections that end or get a lower level when a file is applied.
import { findClient } from '../../clients/clients.ts';
import type { RuleSubject } from '../../clients/rules.ts';
import {
  type AffectedConnection,
  affectedConnections,
  endedBy,
  isLess,
  works,
} from '../../connections/affected.ts';
import type { Connection } from '../../connections/connection.ts';
import { findConnection, listConnections } from '../../connections/connections.ts';
import { connectedClients } from '../../connections/grant-lists.ts';
import type { Reason } from '../../connections/reasons.ts';
import { isMachineSubject } from '../../connections/machine-subject.ts';
import type { Connector } from '../../links/connector.ts';
import { findConnector } from '../../links/connectors.ts';
import type { ManagementContext } from '../context.ts';
import { lostToolsBy } from '../lost-tools.ts';
import type { Found } from './machines.ts';

type Changes = {
  connectors: readonly { before: Connector; after: Connector }[];
  revoked: readonly Found[];
  /** Their key, and so their connection. */
  replaced: readonly Found[];
  /** Machines that expire earlier, in seconds since the epoch. */
  shortened: readonly { machine: Found; endsAt: number }[];
  blocks: readonly RuleSubject[];
};

/** `isAll` is false if there are too many connections to read. */
export type Lost = { items: AffectedConnection[]; isAll: boolean };

/** Of all changes together. */
const MAX_READ = 50_000;
const BATCH = 100;

/** Names each connection once. */
export async function lostConnections(
  management: ManagementContext,
  { connectors, revoked, replaced, shortened, blocks }: Changes,
): Promise<Lost> {
  const { settings, services } = management;
  const lost = new Map<string, AffectedConnection>();
  const add = (item: AffectedConnection) => {
    const known = lost.get(item.before.id);
    // What ends does not come back.
    if (!known || endOf(item) < endOf(known) || endOf(known) === Infinity)
      lost.set(item.before.id, item);
  };
  const addEnded = (before: Connection, reason: Reason) =>
    add({ before, after: endedBy(before, reason) });
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
      lostTools: await lostToolsBy(management, { before, after }),
    });
    left -= found.read;
    isAll &&= found.isAll;
    for (const item of found.items) add(item);
  }
  for (const { machine, endsAt } of shortened)
    if (works(machine.connection))
      add({ before: machine.connection, after: endedBy(machine.connection, 'absolute'), endsAt });
  return { items: [...lost.values()], isAll };
}

/** Those that have lost access after the file was applied, as they are now: a record may have failed. */
export async function happened(
  { settings, services }: ManagementContext,
  { items, isAll }: Lost,
): Promise<Lost> {
  const connectors = new Map<string, Promise<Connector | undefined>>();
  const connectorOf = (id: string) => {
    const found = connectors.get(id) ?? findConnector(services.store, id);
    connectors.set(id, found);
    return found;
  };
  const now = async (item: AffectedConnection): Promise<AffectedConnection[]> => {
    const { before, endsAt } = item;
    // The record of an ended connection may be deleted.
    const found = await findConnection(settings, services, before.id);
    if (!found) return [item];
    if (endsAt !== undefined && works(found)) {
      const connector = await connectorOf(before.connector.id);
      const end = Math.min(connector?.expiresAt ?? Infinity, machineEnd(found));
      if (end <= endsAt) return [{ ...item, after: { ...item.after, level: found.level } }];
    }
    return isLess(settings.levels, before, found) ? [{ before, after: found }] : [];
  };
  const lost: AffectedConnection[] = [];
  for (let from = 0; from < items.length; from += BATCH)
    lost.push(...(await Promise.all(items.slice(from, from + BATCH).map(now))).flat());
  return { items: lost, isAll };
}

/** A machine cannot renew its connection. */
function machineEnd({ account, expiresAt = Infinity }: Connection): number {
  return isMachineSubject(account.id) ? expiresAt : Infinity;
}

/** Seconds since the epoch; Infinity if it does not end. */
function endOf({ after, endsAt = -Infinity }: AffectedConnection): number {
  return after.state === 'ended' ? endsAt : Infinity;
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
