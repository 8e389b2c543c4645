import { findClient } from '../../clients/clients.ts';
import {
  findMachine,
  knownKeyed,
  machineIds,
  unlistMachine,
  type Machine,
  type PublicKeys,
  publicKeysOf,
} from '../../clients/machines.ts';
import type { Connection } from '../../connections/connection.ts';
import { findConnection } from '../../connections/connections.ts';
import { connectedClients } from '../../connections/grant-lists.ts';
import { HttpError } from '../../http/errors.ts';
import { isObject } from '../../json-values.ts';
import { isAtLeast, isLevel } from '../../permission-levels.ts';
import { clientHandlers } from '../clients.ts';
import type { ManagementContext } from '../context.ts';
import { adoptMachine, createMachine, etagOf, machineHandlers } from '../machines.ts';
import { represent } from '../represent.ts';
import { type ExportedFile, exportedMachine, type MachineRecord } from '../resources/apply.ts';
import { MAX_LIFETIME_SECONDS } from '../resources/schemas.ts';
import {
  expectedLevel,
  invalid,
  mapRecords,
  type Issues,
  Matcher,
  type PlannedConnector,
  type Step,
} from './plan.ts';

/** A machine whose connection has not ended. */
export type Found = {
  id: string;
  key?: string | undefined;
  name: string;
  machine: Machine;
  publicKeys: PublicKeys;
  connection: Connection;
  /** Revoked, by a request that did not end its connection. */
  isRevoked: boolean;
};

const BATCH = 100;

export async function findMachines(management: ManagementContext): Promise<Found[]> {
  const { settings, services } = management;
  const { store, now } = services;
  const lifetime = settings.lifetimes.refreshTokenAbsolute;
  const ids = await machineIds(store, () => connectedClients(store, { lifetime, now: now() }));
  const found: Found[] = [];
  for (let from = 0; from < ids.length; from += BATCH) {
    const batch = ids.slice(from, from + BATCH).map((id) => findWorking(management, id));
    found.push(...(await Promise.all(batch)).filter((each) => each !== undefined));
  }
  return found;
}

async function findWorking(
  { settings, services }: ManagementContext,
  id: string,
): Promise<Found | undefined> {
  const { store, now } = services;
  const stored = await findMachine(store, id);
  if (!stored || stored.expiresAt <= now()) {
    // The next read tries again.
    await unlistMachine(store, id).catch(() => undefined);
    return undefined;
  }
  const [connection, client] = await Promise.all([
    findConnection(settings, services, stored.grantId),
    findClient(store, id, settings.clients),
  ]);
  if (!connection || connection.state === 'ended') return undefined;
  const { name, credentials, ...machine } = stored;
  const { key } = machine;
  const publicKeys = publicKeysOf(credentials);
  return { id, key, name, machine, publicKeys, connection, isRevoked: client?.state !== 'allowed' };
}

export type MachinePlan = {
  steps: Step[];
  /** Machines whose connection is replaced with their key. */
  replaced: Found[];
  /** Machines that expire earlier. */
  shortened: { machine: Found; endsAt: number }[];
  /** Machines with other tools. */
  narrowed: { machine: Found; tools: readonly string[] | undefined }[];
  absent: Found[];
};

/** What else will be there. */
type Others = {
  connectorOf: (key: string) => PlannedConnector | 'invalid' | undefined;
  /** Whether a rule blocks clients with this name. */
  isBlocked: (name: string) => boolean;
};

export async function planMachines(
  management: ManagementContext,
  records: readonly (MachineRecord | undefined)[],
  stored: readonly Found[],
  { connectorOf, isBlocked }: Others,
  issues: Issues,
): Promise<MachinePlan> {
  const matcher = new Matcher(
    stored.filter(({ isRevoked }) => !isRevoked),
    issues,
  );
  const now = management.services.now();
  const past = records.flatMap((record) => (record && record.expiresAt <= now ? [record] : []));
  const expired = await knownKeyed(management.services.store, past);
  const replaced: Found[] = [];
  const shortened: MachinePlan['shortened'] = [];
  const narrowed: MachinePlan['narrowed'] = [];
  const steps = await mapRecords(records, (record, n): Step[] => {
    if (!record) return [];
    const place = `machines.${n}`;
    const connector = connectorOf(record.connector);
    const before = matcher.match(place, record);
    if (before === 'refused') return [];
    const { key, name } = record;
    // A machine that expired as the file says is as it should be, whatever became of its connector.
    if (!before && expired.has(record)) return [{ key, name, action: 'unchanged' }];
    if (isBlocked(name)) {
      issues.add(`${place}.name`, 'a rule blocks clients with this name');
      return [];
    }
    if (connector === 'invalid') return [];
    if (!connector) {
      issues.add(`${place}.connector`, 'the key of a connector that has not ended');
      return [];
    }
    if (!before) {
      if (!issues.isValid(place, ...checksOfNew(management, record, connector))) return [];
      const run = () => create(management, record, connector);
      return [{ key, name, action: 'created', run }];
    }
    if (!issues.isValid(place, ...checksOfChange(management, before, record, connector))) return [];
    const changed = changesOf(before, record);
    const { id } = before;
    if (changed.length === 0 && before.key === key) return [{ key, id, name, action: 'unchanged' }];
    const isReplaced = changed.includes('jwks') || changed.includes('jwksUri');
    if (isReplaced) replaced.push(before);
    if (record.expiresAt < Math.floor(before.machine.expiresAt))
      shortened.push({ machine: before, endsAt: record.expiresAt });
    if (changed.includes('tools')) narrowed.push({ machine: before, tools: record.tools });
    if (changed.length === 0) {
      const run = () => adoptMachine(management, id, key);
      return [{ key, id, name, action: 'adopted', run }];
    }
    const run = async () => {
      const { expiresAt } = changed.includes('expiresAt') ? record : before.machine;
      const { tools = null, calls = null } = record;
      const body = { id, key, name, expiresAt, tools, calls };
      await machineHandlers.updateMachine(management, { body, ifMatch: etagOf(before) });
      const { jwks, jwksUri } = record;
      if (isReplaced)
        await machineHandlers.replaceMachineKey(management, { body: { id, jwks, jwksUri } });
      return id;
    };
    return [{ key, id, name, action: 'updated', changed, run }];
  });
  const absent = stored.filter((machine) => !matcher.isMatched(machine));
  return { steps, replaced, shortened, narrowed, absent };
}

/** Each throws HttpError 400. */
function checksOfNew(
  management: ManagementContext,
  record: MachineRecord,
  connector: PlannedConnector,
): (() => void)[] {
  const { levels } = management.settings;
  const { level } = record;
  return [
    () => {
      if (!hasKey(record))
        throw invalid(
          'jwks: no machine with this key works, and a new one needs a public key here or in jwksUri',
        );
    },
    () => {
      if (!isLevel(levels, level)) throw invalid(`level: ${expectedLevel(levels)}`);
      if (isLevel(levels, connector.level) && !isAtLeast(levels, connector.level, level))
        throw invalid(`level: at most ${connector.level}, as its connector`);
    },
    () => requireExpiry(management, record, { since: management.services.now(), connector }),
  ];
}

/** Each throws HttpError 400. */
function checksOfChange(
  management: ManagementContext,
  before: Found,
  record: MachineRecord,
  connector: PlannedConnector,
): (() => void)[] {
  const { machine, publicKeys, connection } = before;
  const since = connection.createdAt;
  const hasOtherExpiry = changesOf(before, record).includes('expiresAt');
  return [
    () => {
      if (connector.id !== machine.connector)
        throw invalid('connector: cannot be changed; use another key for a new machine');
    },
    () => {
      if (record.level !== machine.level)
        throw invalid('level: cannot be changed; use another key for a new machine');
    },
    () => {
      if (hasKey(publicKeys) && !hasKey(record))
        throw invalid('jwks: a machine with a public key needs one here or in jwksUri');
    },
    ...(hasOtherExpiry ? [() => requireExpiry(management, record, { since, connector })] : []),
  ];
}

/** Throws HttpError 400. */
function requireExpiry(
  { services }: ManagementContext,
  { expiresAt }: MachineRecord,
  { since, connector }: { since: number; connector: PlannedConnector },
): void {
  if (expiresAt <= services.now()) throw invalid('expiresAt: a time in the future');
  if (expiresAt > since + MAX_LIFETIME_SECONDS)
    throw invalid('expiresAt: at most 366 days after the machine was created or got its key');
  if (expiresAt > (connector.expiresAt ?? Infinity))
    throw invalid('expiresAt: at most that of its connector');
}

function hasKey({ jwks, jwksUri }: PublicKeys): boolean {
  return jwks !== undefined || jwksUri !== undefined;
}

/** The names of the members that differ. */
function changesOf({ name, machine, publicKeys }: Found, record: MachineRecord): string[] {
  const { jwks, jwksUri, expiresAt, calls } = record;
  const hasOtherKey = hasKey(record) && canonical({ jwks, jwksUri }) !== canonical(publicKeys);
  return [
    ...(name === record.name ? [] : ['name']),
    ...(hasOtherKey ? [jwks ? 'jwks' : 'jwksUri'] : []),
    ...(canonical(record.tools ?? null) === canonical(machine.tools ?? null) ? [] : ['tools']),
    ...(expiresAt === Math.floor(machine.expiresAt) ? [] : ['expiresAt']),
    ...(calls === machine.calls ? [] : ['calls']),
  ];
}

/** The members of objects in one order. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) =>
    isObject(member) ? Object.fromEntries(Object.entries(member).sort(byName)) : member,
  );
}

const byName = ([one]: [string, unknown], [other]: [string, unknown]) => (one < other ? -1 : 1);

async function create(
  management: ManagementContext,
  record: MachineRecord,
  { id: connector }: PlannedConnector,
): Promise<string> {
  if (connector === undefined)
    throw new HttpError(409, 'connector_ended', 'its connector was not created');
  const { id: _id, ...wanted } = record;
  return (await createMachine(management, { ...wanted, connector })).id;
}

export function endMachines(management: ManagementContext, ended: readonly Found[]): Step[] {
  return ended.map(({ id, key = id, name }) => ({
    key,
    id,
    name,
    action: 'ended',
    async run() {
      await clientHandlers.revokeClient(management, { body: { id } });
      return id;
    },
  }));
}

/** `keyOf` is the key of a connector in the file. */
export function exportMachines(
  machines: readonly Found[],
  keyOf: (connector: string) => string | undefined,
): ExportedFile['machines'] {
  return machines.flatMap(({ id, key = id, name, machine, publicKeys, isRevoked }) => {
    const connector = keyOf(machine.connector);
    if (connector === undefined || isRevoked) return [];
    return [represent(exportedMachine, { ...machine, ...publicKeys, key, name, connector })];
  });
}
