import { isDeepStrictEqual } from 'node:util';
import { type ChangeItem, recordChange } from '../audit/recorded-change.ts';
import { newClientSecret, secretDigest } from '../clients/client-secrets.ts';
import { findClient } from '../clients/clients.ts';
import {
  addMachine,
  createdMachines,
  type Credentials,
  findMachine,
  listCreatedMachine,
  type Machine,
  type MachineChange,
  type MachineUpdate,
  type NamedMachine,
  newMachineId,
  type PublicKeys,
  replaceCredentials,
  updateMachine,
} from '../clients/machines.ts';
import {
  endConnection,
  findConnection,
  listConnections,
  type Reading,
} from '../connections/connections.ts';
import { connectLink } from '../links/connect-link.ts';
import { type Connector, isUsable, redeemerOf } from '../links/connector.ts';
import { acquireUse, commitUses, findConnector } from '../links/connectors.ts';
import { createGrant, newGrantId } from '../connections/create-grant.ts';
import { grantLifetimes, redemptionDeadline } from '../connections/grant-lifetime.ts';
import type { GrantRecord } from '../connections/grant-record.ts';
import { announceGrant, findGrant, isGrantActive, updateGrant } from '../connections/grants.ts';
import { machineSubject } from '../connections/machine-subject.ts';
import { HttpError, notFound } from '../http/errors.ts';
import { isAtLeast, type Level, levelsUpTo } from '../permission-levels.ts';
import { KEEP } from '../store/store.ts';
import type { ApiRequest } from './api/operations.ts';
import { type Handlers, type ManagementContext, requireMatch } from './context.ts';
import { openedBy } from './opened-by.ts';
import { changedMembers, isoTime, represent, withoutNulls } from './represent.ts';
import { MAX_LIFETIME_SECONDS } from './resources/schemas.ts';
import {
  changeableMachineSchema,
  type ChangedMachine,
  changedMachineSchema,
  machineEtag,
  type machineOperations,
  type MachineResource,
  machineSchema,
} from './resources/machine.ts';

/** What makes and changes the connection of a machine. */
type Connecting = Pick<ManagementContext, 'settings'> & { services: Reading };

type Named = { id: string; name: string; machine: Machine };

export const machineHandlers: Handlers<keyof typeof machineOperations> = {
  createMachine: (management, { body }) => createMachine(management, body),

  /** Replaces the secret or the key. Tokens that were issued before end at once. The use of the connector stays the same. */
  async replaceMachineKey(management, { body: { id, ...key } }) {
    const { connector, ...current } = await requireMachine(management, id);
    const { grantId } = current.machine;
    const unfinished = await otherConnections(management, id, grantId);
    const next = { ...current, machine: { ...current.machine, grantId: newGrantId() } };
    const { credentials, secret } = newCredentials(key);
    const item = itemOf(management, 'machine_key_replaced', next);
    await recordChange(management.services, item, {
      async make() {
        await reserveMachineUse(management, next);
        await connectMachine(management, next);
        await storeCredentials(management, current, next, credentials);
        await endReplaced(management, next, [grantId, ...unfinished]);
      },
      itemOf: () => item,
    });
    return resource(management, connector, next, { credentials, secret });
  },

  async showMachine(management, { query: { id } }) {
    const { connector, ...found } = await requireMachine(management, id);
    return changedResource(management, connector, found);
  },

  async updateMachine(management, { body: { id, ...change }, ifMatch }) {
    const { connector, createdAt, name, machine } = await requireMachine(management, id);
    // The lists of connections reach back so far.
    const latest = Math.min(createdAt + MAX_LIFETIME_SECONDS, connector.expiresAt ?? Infinity);
    const next = (before: NamedMachine) => changedMachine(before, change, { latest, ifMatch });
    const after = await changeMachine(management, { id, name, machine }, next);
    return changedResource(management, connector, { id, ...after });
  },
};

type WantedMachine = ApiRequest<'createMachine'>['body'] & { key?: string };

/** Creates a client with a connection of its own, which takes one use of the connector. Only the result has the secret. */
export async function createMachine(
  management: ManagementContext,
  wanted: WantedMachine,
): Promise<MachineResource> {
  const { store, now } = management.services;
  const { name, level, key, tools, calls } = wanted;
  const { by } = management;
  const connector = await requireConnector(management, wanted.connector);
  requireLevelOf(management, connector, level);
  const expiresAt = Math.floor(Math.min(wanted.expiresAt, connector.expiresAt ?? Infinity));
  const id = newMachineId();
  const { credentials, secret } = newCredentials(wanted);
  const grantId = newGrantId();
  const machine = {
    connector: connector.id,
    level,
    grantId,
    createdAt: Math.floor(now()),
    by,
    expiresAt,
    ...(calls === undefined ? {} : { calls }),
    ...(key === undefined ? {} : { key }),
    ...(tools === undefined ? {} : { tools }),
  };
  const named = { id, name, machine };
  const item = itemOf(management, 'machine_created', named);
  await recordChange(management.services, item, {
    async make() {
      await reserveMachineUse(management, named);
      // Nobody looks for the machines of a management key, and a program with one may create many.
      if (by.startsWith('account:')) await listCreatedMachine(store, by, { id, expiresAt });
      // Before its connection, so that a machine whose creation failed later can get a new secret.
      await addMachine(store, { ...named, credentials }, now());
      await connectMachine(management, named);
      const holder = redeemerOf(machineSubject(id), id);
      await commitUses(store, connector.id, [{ holder, grantId }]);
    },
    itemOf: () => item,
  });
  return resource(management, connector, named, { credentials, secret });
}

/** Gives a machine its key in the file of `gatehouse apply`, also while its connector is not configured. Returns the id. */
export async function adoptMachine(
  management: ManagementContext,
  id: string,
  key: string,
): Promise<string> {
  const found = await findMachine(management.services.store, id);
  if (!found) throw unknownMachine();
  const { name, credentials: _credentials, ...machine } = found;
  const next = (before: NamedMachine) => ({ ...before, machine: { ...before.machine, key } });
  await changeMachine(management, { id, name, machine }, next);
  return id;
}

/** Also changes the connection of the machine. Throws what `next` throws for the machine as it is, and HttpError 404. */
async function changeMachine(
  management: ManagementContext,
  { id, ...current }: Named,
  next: (before: NamedMachine) => NamedMachine,
): Promise<NamedMachine> {
  const { services } = management;
  const { store, now } = services;
  const begun = changedItem(management, id, { before: current, after: next(current) });
  const update = await recordChange(services, begun, {
    async make() {
      const made = await updateMachine(store, id, next, now());
      if (made) await changeGrant(management, made.after);
      return made;
    },
    itemOf: (made) =>
      made && made.after !== made.before ? changedItem(management, id, made) : undefined,
  });
  if (!update) throw unknownMachine();
  return update.after;
}

/** Returns the same machine if nothing changes. Throws HttpError 412 for another version, and 400 for an expiry after `latest`. */
function changedMachine(
  before: NamedMachine,
  { name = before.name, expiresAt = before.machine.expiresAt, ...members }: MachineChange,
  { latest, ifMatch }: { latest: number; ifMatch: string | undefined },
): NamedMachine {
  requireMatch(ifMatch, etagOf(before));
  const expiry = Math.floor(expiresAt);
  if (expiry > Math.max(latest, before.machine.expiresAt)) {
    const message = `expiresAt: at most ${isoTime(latest)}: 366 days after the machine was created or got its key, and not after its connector`;
    throw new HttpError(400, 'invalid_request', message);
  }
  const machine = withoutNulls({ ...before.machine, expiresAt: expiry, ...members });
  const after = { name, machine };
  return etagOf(after) === etagOf(before) ? before : after;
}

export function etagOf(machine: NamedMachine): string {
  return machineEtag(changeable(machine));
}

function changeable({ name, machine }: NamedMachine) {
  return represent(changeableMachineSchema, { ...machine, name });
}

/** The connection has the name, the expiry and the limit of its machine, and what it opens. Also repeats a change that stopped half-way. */
export async function changeGrant(
  { settings, services: { store, now } }: Connecting,
  { name, machine }: NamedMachine,
): Promise<void> {
  const { grantId, expiresAt } = machine;
  const next = (record: GrantRecord) => {
    const ofMachine = grantOfMachine(machine, record.machine);
    const isSame =
      record.client.name === name &&
      record.grant.exp === expiresAt &&
      isDeepStrictEqual(record.machine, ofMachine);
    if (isSame) return KEEP;
    return {
      ...record,
      client: { ...record.client, name },
      grant: { ...record.grant, exp: expiresAt },
      machine: ofMachine,
    };
  };
  const lifetimes = grantLifetimes(settings.lifetimes);
  await updateGrant(store, grantId, next, { lifetimes, now: now() });
  await announceGrant(store, grantId);
}

function changedItem(
  { by }: ManagementContext,
  id: string,
  { before, after }: MachineUpdate,
): ChangeItem {
  const { connector, grantId } = after.machine;
  return {
    event: 'machine_changed',
    clientId: id,
    connector,
    grantId,
    by,
    arguments: { name: after.name, ...changedMembers(changeable(before), changeable(after)) },
  };
}

async function changedResource(
  management: ManagementContext,
  connector: Connector,
  named: Named,
): Promise<ChangedMachine> {
  return represent(changedMachineSchema, await membersOf(management, connector, named));
}

async function membersOf(
  management: ManagementContext,
  { upstream }: Connector,
  { id, name, machine }: Named,
) {
  const { level, tools } = machine;
  return {
    ...machine,
    id,
    name,
    link: connectLink(management.settings.resourceUrl, machine.connector),
    ...(await openedBy(management, 'machine', { level, upstream, tools })),
  };
}

/** Throws HttpError 404, and 409 if the machine or its connector has ended. */
async function requireMachine(
  management: ManagementContext,
  id: string,
): Promise<Named & { createdAt: number; connector: Connector }> {
  const { settings, services } = management;
  const { store, now } = services;
  const found = await findMachine(store, id);
  if (!found || found.expiresAt <= now()) throw unknownMachine();
  const { name, credentials: _earlier, ...machine } = found;
  const grant = await findGrant(store, machine.grantId);
  const client = await findClient(store, id, settings.clients);
  if (!grant || client?.state !== 'allowed') throw machineEnded();
  const connector = await requireConnector(management, machine.connector);
  return { id, name, machine, createdAt: grant.value.createdAt, connector };
}

function unknownMachine(): HttpError {
  return notFound('there is no machine with this id');
}

/** Of concurrent replacements, one succeeds. The others end the connection that they made, with HttpError 409. */
async function storeCredentials(
  { services }: ManagementContext,
  replaced: Named,
  { id, machine }: Named,
  credentials: Credentials,
): Promise<void> {
  const from = { ...replaced.machine, name: replaced.name };
  const change = { from, to: machine.grantId, credentials };
  if (await replaceCredentials(services.store, id, change, services.now())) return;
  await endConnection(services, { id: machine.grantId, state: 'active' }, 'key_replaced');
  const message = 'the key was replaced by another request: try again';
  throw new HttpError(409, 'changed_meanwhile', message);
}

/** Ends the connections that the machine had. If somebody ended the first meanwhile, it must not come back: the new one ends too, with HttpError 409. */
async function endReplaced(
  { services, by }: ManagementContext,
  { machine }: Named,
  replaced: readonly string[],
): Promise<void> {
  const end = (grantId: string) =>
    endConnection(services, { id: grantId, state: 'active' }, 'key_replaced', by);
  const [isEnded] = await Promise.all(replaced.map(end));
  if (isEnded) return;
  const next = { id: machine.grantId, state: 'active' } as const;
  await endConnection(services, next, 'revoked_by_administrator');
  throw machineEnded();
}

/** A machine that works. `expiresAt` in seconds since the epoch. */
export type CreatedMachine = { id: string; name: string; level: Level; expiresAt: number };

const MAX_CREATED_READ = 200;

/** Returns the machines that this person created and whose connection has not ended. `isAll` is false if there are too many to read. */
export async function listMachinesCreatedBy(
  { settings, services }: ManagementContext,
  by: string,
): Promise<{ items: CreatedMachine[]; isAll: boolean }> {
  const ids = await createdMachines(services.store, by, services.now());
  const found = ids.slice(0, MAX_CREATED_READ).map(async (id) => {
    const machine = await findMachine(services.store, id);
    const connection = machine && (await findConnection(settings, services, machine.grantId));
    if (!machine || !connection || connection.state === 'ended') return [];
    return [{ id, name: machine.name, level: machine.level, expiresAt: machine.expiresAt }];
  });
  return { items: (await Promise.all(found)).flat(), isAll: ids.length <= MAX_CREATED_READ };
}

/** The connections that unfinished replacements left. Read before the machine is changed, they include none of a later replacement. */
async function otherConnections(
  { settings, services }: ManagementContext,
  id: string,
  current: string,
): Promise<string[]> {
  const filter = { client: id, state: 'active' } as const;
  const connections = await Array.fromAsync(listConnections(settings, services, filter));
  return connections.map(({ item }) => item.id).filter((grantId) => grantId !== current);
}

function machineEnded(): HttpError {
  return new HttpError(409, 'machine_ended', 'the machine was revoked: create a new one');
}

function newCredentials({ jwks, jwksUri }: PublicKeys): {
  credentials: Credentials;
  secret?: string;
} {
  if (jwks) return { credentials: { jwks } };
  if (jwksUri !== undefined) return { credentials: { jwksUri } };
  const secret = newClientSecret();
  return { credentials: { secretDigest: secretDigest(secret) }, secret };
}

/** Throws HttpError 404, and 409 if the connector has ended. */
async function requireConnector(
  { settings, services: { store, now } }: ManagementContext,
  id: string,
): Promise<Connector> {
  const connector = await findConnector(store, id);
  if (!connector) throw notFound('there is no connector with this id');
  if (!isUsable(connector, now(), settings))
    throw new HttpError(
      409,
      'connector_ended',
      'the connector was revoked, has expired or is no longer configured',
    );
  return connector;
}

/** Throws HttpError 400. A machine keeps its level if the one of the connector is lowered later, and has no more than the connector. */
function requireLevelOf({ settings }: ManagementContext, connector: Connector, level: Level): void {
  if (isAtLeast(settings.levels, connector.level, level)) return;
  const message = `level: at most ${connector.level}, as the connector`;
  throw new HttpError(400, 'invalid_request', message);
}

/** The grant of the machine shares the use of its earlier one, or reserves one. Throws HttpError 409 if none is left. */
export async function reserveMachineUse(
  { settings, services: { store, now } }: Connecting,
  { id, machine: { connector, grantId } }: Named,
): Promise<void> {
  const lifetimes = grantLifetimes(settings.lifetimes);
  const holder = redeemerOf(machineSubject(id), id);
  const reservation = { grantId, holder, reservedUntil: now() + redemptionDeadline(lifetimes) };
  const isActive = (other: string) => isGrantActive(store, other, lifetimes, now());
  if (!(await acquireUse(store, connector, reservation, { now: now(), isActive })))
    throw new HttpError(409, 'used_up', 'the connector has no uses left');
}

export async function connectMachine(
  { settings, services: { store, now } }: Connecting,
  { id, name, machine }: Named,
): Promise<void> {
  const { connector, grantId, level, expiresAt } = machine;
  const lifetimes = grantLifetimes(settings.lifetimes);
  const grantLifetime = expiresAt - Math.floor(now());
  await createGrant({ store, now, lifetimes, grantLifetime }, grantId, {
    account: { id: machineSubject(id) },
    client: { id, name, redirectHost: '' },
    connector: { id: connector },
    resource: connectLink(settings.resourceUrl, connector),
    scopes: levelsUpTo(settings.levels, level),
    machine: grantOfMachine(machine),
  });
}

function grantOfMachine(
  { tools, calls }: Pick<Machine, 'tools' | 'calls'>,
  { usedAt }: NonNullable<GrantRecord['machine']> = {},
): NonNullable<GrantRecord['machine']> {
  return {
    ...(usedAt === undefined ? {} : { usedAt }),
    ...(tools ? { tools } : {}),
    ...(calls ? { calls } : {}),
  };
}

function itemOf(
  { by }: ManagementContext,
  event: 'machine_created' | 'machine_key_replaced',
  { id, name, machine: { connector, level, grantId, expiresAt, tools, calls } }: Named,
): ChangeItem {
  return {
    event,
    clientId: id,
    connector,
    grantId,
    by,
    arguments: { name, level, tools, calls, expiresAt: isoTime(expiresAt) },
  };
}

async function resource(
  management: ManagementContext,
  connector: Connector,
  named: Named,
  { credentials, secret }: ReturnType<typeof newCredentials>,
): Promise<MachineResource> {
  return represent(machineSchema, {
    ...(await membersOf(management, connector, named)),
    authentication: 'secretDigest' in credentials ? 'client_secret_basic' : 'private_key_jwt',
    secret,
  });
}
