import { randomBytes } from 'node:crypto';
import type { JWK } from 'jose';
import { recordAudit } from '../audit/audit.ts';
import { newClientSecret, secretDigest } from '../clients/client-secrets.ts';
import { findClient } from '../clients/clients.ts';
import {
  addMachine,
  createdMachines,
  type Credentials,
  findMachine,
  listCreatedMachine,
  type Machine,
  newMachineId,
  replaceCredentials,
} from '../clients/machines.ts';
import { endConnection, findConnection, listConnections } from '../connections/connections.ts';
import { connectLink } from '../connectors/connect-link.ts';
import { type Connector, isUsable, redeemerOf } from '../connectors/connector.ts';
import { acquireUse, commitUses, findConnector } from '../connectors/connectors.ts';
import { createGrant } from '../grants/create-grant.ts';
import { grantLifetimes, redemptionDeadline } from '../grants/grant-lifetime.ts';
import { findGrant, isGrantActive } from '../grants/grants.ts';
import { machineSubject } from '../grants/machine-subject.ts';
import { HttpError, notFound } from '../http/errors.ts';
import { isAtLeast, type Level, levelsUpTo } from '../permission-levels.ts';
import type { MachineResource } from './api/resources.ts';
import type { ManagementContext } from './context.ts';
import { isoTime } from './representations.ts';

/** Without a key, the machine gets a secret. `expiresAt` in seconds since the epoch. */
export type NewMachine = PublicKey & {
  name: string;
  connector: string;
  level: Level;
  expiresAt: number;
};

export type PublicKey = { jwks?: { keys: JWK[] } | undefined; jwksUri?: string | undefined };

/** Creates a client with a connection of its own, which takes one use of the connector. Only the response has the secret. */
export async function createMachine(
  management: ManagementContext,
  wanted: NewMachine,
): Promise<MachineResource> {
  const { settings, services, by } = management;
  const { store, now } = services;
  const { name, level } = wanted;
  const connector = await requireConnector(management, wanted.connector, level);
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
  };
  await reserveMachineUse(management, { id, name, machine });
  // Nobody looks for the machines of a management key, and a program with one may create many.
  if (by.startsWith('account:')) await listCreatedMachine(store, by, { id, expiresAt });
  // Before its connection, so that a machine whose creation failed later can get a new secret.
  await addMachine(store, { id, name, credentials, machine }, now());
  await connectMachine(management, { id, name, machine });
  const holder = redeemerOf(machineSubject(id), id);
  await commitUses(store, connector.id, [{ holder, grantId }]);
  await record(management, 'machine_created', { id, name, machine });
  return resource(settings.resourceUrl, { id, name, machine, credentials, secret });
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

/** Replaces the secret or the key. Tokens that were issued before end at once. The use of the connector stays the same. */
export async function replaceMachineCredentials(
  management: ManagementContext,
  id: string,
  key: PublicKey,
): Promise<MachineResource> {
  const { settings, services } = management;
  const { store, now } = services;
  const found = await findMachine(store, id);
  if (!found || found.expiresAt <= now()) throw notFound('there is no machine with this id');
  const { name, credentials: _earlier, ...machine } = found;
  const grant = await findGrant(store, machine.grantId);
  const client = await findClient(store, id, settings.clients);
  if (!grant || client?.state !== 'allowed') throw machineEnded();
  await requireConnector(management, machine.connector, machine.level);
  const others = await otherConnections(management, id, machine.grantId);
  const { credentials, secret } = newCredentials(key);
  const next = { ...machine, grantId: newGrantId() };
  await reserveMachineUse(management, { id, name, machine: next });
  await connectMachine(management, { id, name, machine: next });
  const change = { from: machine.grantId, to: next.grantId, credentials };
  if (!(await replaceCredentials(store, id, change, now()))) {
    await endConnection(services, { id: next.grantId, state: 'active' }, 'key_replaced');
    throw new HttpError(
      409,
      'changed_meanwhile',
      'the key was replaced by another request: try again',
    );
  }
  const { by } = management;
  const end = (grantId: string) =>
    endConnection(services, { id: grantId, state: 'active' }, 'key_replaced', by);
  const [isEnded] = await Promise.all([machine.grantId, ...others].map(end));
  if (!isEnded) {
    // Somebody ended the connection meanwhile, and it must not come back with another grant.
    await endConnection(
      services,
      { id: next.grantId, state: 'active' },
      'revoked_by_administrator',
    );
    throw machineEnded();
  }
  await record(management, 'machine_key_replaced', { id, name, machine: next });
  return resource(settings.resourceUrl, { id, name, machine: next, credentials, secret });
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

function newGrantId(): string {
  return randomBytes(20).toString('base64url');
}

function newCredentials({ jwks, jwksUri }: PublicKey): {
  credentials: Credentials;
  secret?: string;
} {
  if (jwks) return { credentials: { jwks } };
  if (jwksUri !== undefined) return { credentials: { jwksUri } };
  const secret = newClientSecret();
  return { credentials: { secretDigest: secretDigest(secret) }, secret };
}

/** Throws HttpError 404, 409 if the connector has ended, and 400 if it does not allow the level. */
async function requireConnector(
  { settings, services: { store, now } }: ManagementContext,
  id: string,
  level: Level,
): Promise<Connector> {
  const connector = await findConnector(store, id);
  if (!connector) throw notFound('there is no connector with this id');
  if (!isUsable(connector, now(), settings))
    throw new HttpError(
      409,
      'connector_ended',
      'the connector was revoked, has expired or is no longer configured',
    );
  if (!isAtLeast(settings.levels, connector.level, level))
    throw new HttpError(
      400,
      'invalid_request',
      `level: at most ${connector.level}, as the connector`,
    );
  return connector;
}

type Named = { id: string; name: string; machine: Machine };

/** The grant of the machine shares the use of its earlier one, or reserves one. Throws HttpError 409 if none is left. */
async function reserveMachineUse(
  { settings, services: { store, now } }: ManagementContext,
  { id, machine: { connector, grantId } }: Named,
): Promise<void> {
  const lifetimes = grantLifetimes(settings.lifetimes);
  const holder = redeemerOf(machineSubject(id), id);
  const reservation = { grantId, holder, reservedUntil: now() + redemptionDeadline(lifetimes) };
  const isActive = (other: string) => isGrantActive(store, other, lifetimes, now());
  if (!(await acquireUse(store, connector, reservation, { now: now(), isActive })))
    throw new HttpError(409, 'used_up', 'the connector has no uses left');
}

async function connectMachine(
  { settings, services: { store, now } }: ManagementContext,
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
    machine: {},
  });
}

async function record(
  { services, by }: ManagementContext,
  event: 'machine_created' | 'machine_key_replaced',
  { id, name, machine: { connector, level, grantId, expiresAt } }: Named,
): Promise<void> {
  await recordAudit(services, {
    event,
    clientId: id,
    connector,
    grantId,
    by,
    arguments: { name, level, expiresAt: isoTime(expiresAt) },
    outcome: 'done',
  });
}

function resource(
  resourceUrl: string,
  {
    id,
    name,
    machine,
    credentials,
    secret,
  }: Named & { credentials: Credentials; secret?: string | undefined },
): MachineResource {
  const { connector, level, by, expiresAt } = machine;
  return {
    id,
    name,
    connector,
    link: connectLink(resourceUrl, connector),
    level,
    by,
    expiresAt: isoTime(expiresAt),
    authentication: 'secretDigest' in credentials ? 'client_secret_basic' : 'private_key_jwt',
    ...(secret === undefined ? {} : { secret }),
  };
}
