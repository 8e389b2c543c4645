// The connections that end or get a lower level when a file is applied.
import { findClients } from '../../clients/clients.ts';
import type { RuleSubject } from '../../clients/rules.ts';
import {
  type AffectedConnection,
  affectedConnections,
  endedBy,
  isLess,
  losesTools,
  stopsAtOnce,
  works,
} from '../../connections/affected.ts';
import type { Connection } from '../../connections/connection.ts';
import { findConnection, listConnections, memoize } from '../../connections/connections.ts';
import { findStoredGrant } from '../../connections/grants.ts';
import { connectedClients } from '../../connections/grant-lists.ts';
import type { Reason } from '../../connections/reasons.ts';
import { isMachineSubject } from '../../connections/machine-subject.ts';
import type { Connector } from '../../links/connector.ts';
import { findConnector } from '../../links/connectors.ts';
import type { ManagementContext } from '../context.ts';
import { toolLosses } from '../lost-tools.ts';
import type { Found } from './machines.ts';

export type Changes = {
  connectors: readonly { before: Connector; after: Connector }[];
  revoked: readonly Found[];
  /** Their key, and so their connection. */
  replaced: readonly Found[];
  /** Machines that expire earlier, in seconds since the epoch. */
  shortened: readonly { machine: Found; endsAt: number }[];
  /** Machines with other tools. */
  narrowed: readonly { machine: Found; tools: readonly string[] | undefined }[];
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
  { connectors, revoked, replaced, shortened, narrowed, blocks }: Changes,
): Promise<Lost> {
  const { settings, services } = management;
  const lost = new Map<string, AffectedConnection>();
  const add = (item: AffectedConnection) => {
    const known = lost.get(item.before.id);
    // What ends does not come back.
    if (!known || endOf(item) < endOf(known) || endOf(known) === Infinity)
      lost.set(item.before.id, { ...known, ...item });
  };
  const addEnded = (before: Connection, reason: Reason) =>
    lost.set(before.id, lost.get(before.id) ?? { before, after: endedBy(before, reason) });
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
  const machines = new Map(narrowed.map(({ machine, tools }) => [machine.connection.id, tools]));
  for (const item of await narrowedMachines(management, narrowed, machines)) add(item);
  for (const { before, after } of connectors) {
    const change = {
      before: { settings, connector: before },
      after: { settings, connector: after, machines },
    };
    const found = await affectedConnections(services, {
      ...change,
      limit: left,
      toolLosses: toolLosses(services, change),
    });
    left -= found.read;
    isAll &&= found.isAll;
    for (const item of found.items) add(item);
  }
  for (const { machine, endsAt } of shortened) {
    const before = machine.connection;
    const { after, endsAt: known } = lost.get(before.id) ?? { after: before };
    if (works(before) && (known !== undefined || !stopsAtOnce(before, after)))
      add({ before, after: endedBy(after, 'absolute'), endsAt });
  }
  return { items: [...lost.values()], isAll };
}

/** Those that go on with fewer tools. */
async function narrowedMachines(
  { settings, services }: ManagementContext,
  narrowed: Changes['narrowed'],
  machines: ReadonlyMap<string, readonly string[] | undefined>,
): Promise<AffectedConnection[]> {
  const losses = toolLosses(services, { before: { settings }, after: { settings, machines } });
  const found = narrowed.map(async ({ machine: { connection } }) => {
    const stored = await findStoredGrant(services.store, connection.id);
    const loss = stored && works(connection) ? await losses(stored, connection, connection) : {};
    return losesTools(loss) ? [{ before: connection, after: connection, ...loss }] : [];
  });
  return (await Promise.all(found)).flat();
}

/** Those that have lost access after the file was applied, as they are now: a record may have failed. */
export async function happened(
  { settings, services }: ManagementContext,
  { items, isAll }: Lost,
  { connectors, narrowed }: Pick<Changes, 'connectors' | 'narrowed'>,
): Promise<Lost> {
  const { store } = services;
  const connectorOf = memoize((id: string) => findConnector(store, id));
  const earlier = new Map(connectors.map(({ before }) => [before.id, before]));
  const machines = new Map(
    narrowed.map(({ machine }) => [machine.connection.id, machine.machine.tools]),
  );
  const lossesOf = memoize(async (id: string) => {
    const connector = earlier.get(id);
    const before = { settings, machines, ...(connector ? { connector } : {}) };
    return toolLosses(services, { before, after: { settings } });
  });
  const now = async (item: AffectedConnection): Promise<AffectedConnection[]> => {
    const { before, endsAt } = item;
    const stored = await findStoredGrant(store, before.id);
    const found = stored && (await findConnection(settings, services, before.id));
    // The record of an ended connection may be deleted.
    if (!found) return [item];
    const losses = await lossesOf(before.connector.id);
    const loss = works(found) ? await losses(stored, before, found) : {};
    if (endsAt !== undefined && works(found)) {
      const connector = await connectorOf(before.connector.id);
      const end = Math.min(connector?.expiresAt ?? Infinity, machineEnd(found));
      if (end <= endsAt)
        return [{ before, after: { ...item.after, level: found.level }, endsAt, ...loss }];
    }
    const isLost = losesTools(loss) || isLess(settings.levels, before, found);
    return isLost ? [{ before, after: found, ...loss }] : [];
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
    for (const client of await findClients(store, batch, settings.clients, rules))
      if (client?.state === 'blocked')
        yield* listConnections(settings, services, { client: client.id });
  }
}
