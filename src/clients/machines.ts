// Machines: clients that an administrator creates for one connector, and that get access tokens without a person (RFC 6749 section 4.4).
import { randomBytes } from 'node:crypto';
import type { JWK } from 'jose';
import type { Level } from '../permission-levels.ts';
import { KEEP, type Store } from '../store/store.ts';
import { CLIENT_ID, clientKey, type ClientMetadata, type StoredClient } from './clients.ts';

/** Times are seconds since the epoch. */
export type Machine = {
  connector: string;
  level: Level;
  /** The grant of its tokens. A new secret or key has a new one. */
  grantId: string;
  createdAt: number;
  /** Who created it, as in the audit log. Absent in records of earlier versions. */
  by?: string;
  expiresAt: number;
  /** Limit on its calls, as the settings write rates. */
  calls?: string;
  /** Its key in the file of `gatehouse apply`, which made or adopted it. */
  key?: string;
  /** What it opens of the MCP server: patterns. Absent: everything of the level. */
  tools?: readonly string[];
};

/** How the machine authenticates: with a secret, of which the digest is given, or with a key (RFC 7523 section 2.2). */
export type Credentials =
  { secretDigest: string } | { jwks: { keys: JWK[] } } | { jwksUri: string };

type MachineMetadata = ClientMetadata & Record<string, unknown>;
type MachineClient = StoredClient<MachineMetadata> & { machine?: Machine };

/** Carries the id of a machine whose name, expiry or credentials changed. */
export const MACHINES_CHANNEL = 'machines';

export function newMachineId(): string {
  return randomBytes(16).toString('base64url');
}

/** The client metadata that the engine reads (RFC 7591 section 2). */
function metadataOf(id: string, name: string, credentials: Credentials): MachineMetadata {
  const shared = {
    client_id: id,
    client_name: name,
    redirect_uris: [],
    grant_types: ['client_credentials'],
    response_types: [],
  };
  if ('secretDigest' in credentials)
    return {
      ...shared,
      token_endpoint_auth_method: 'client_secret_basic',
      client_secret: credentials.secretDigest,
    };
  const keys =
    'jwks' in credentials ? { jwks: credentials.jwks } : { jwks_uri: credentials.jwksUri };
  return { ...shared, token_endpoint_auth_method: 'private_key_jwt', ...keys };
}

/** Stores the client until the machine expires. */
export async function addMachine(
  store: Store,
  { id, name, credentials, machine }: NewMachine,
  now: number,
): Promise<void> {
  const value = { metadata: metadataOf(id, name, credentials), machine };
  await listKeyed(store, machine);
  await store.addMember(ALL, id, LISTED_SECONDS);
  await store.set<MachineClient>(clientKey(id), value, machine.expiresAt - now);
}

export type NewMachine = { id: string; name: string; credentials: Credentials; machine: Machine };

const ALL = 'machines:all';
const COLLECTED = 'machines-collected:last';
/** Processes of earlier versions do not list their machines. */
const COLLECTED_SECONDS = 86_400;
const BATCH = 100;

/** Returns the ids of all machines, and of some that have expired. `clients` returns the clients that had a grant: once a day, they are searched for machines. */
export async function machineIds(
  store: Store,
  clients: () => Promise<string[]>,
): Promise<string[]> {
  if (await store.get(COLLECTED)) return store.members(ALL);
  const ids = await clients();
  for (let from = 0; from < ids.length; from += BATCH) {
    const batch = ids.slice(from, from + BATCH).map(async (id) => {
      if (await findMachine(store, id)) await store.addMember(ALL, id, LISTED_SECONDS);
    });
    await Promise.all(batch);
  }
  await store.set(COLLECTED, true, COLLECTED_SECONDS);
  return store.members(ALL);
}

/** Call when the machine has expired. */
export async function unlistMachine(store: Store, id: string): Promise<void> {
  await store.removeMember(ALL, id);
}

/** The keys of machines with their expiry, because a machine that has expired has no record. */
const KEYED = 'machines-with-keys:all';
const keyedMember = ({ key, expiresAt }: Keyed) => `${key} ${expiresAt}`;

type Keyed = Pick<Machine, 'key' | 'expiresAt'>;

async function listKeyed(store: Store, machine: Keyed): Promise<void> {
  if (machine.key !== undefined) await store.addMember(KEYED, keyedMember(machine), LISTED_SECONDS);
}

/** Returns those of the machines that there are or were. */
export async function knownKeyed<Each extends Keyed>(
  store: Store,
  machines: readonly Each[],
): Promise<Set<Each>> {
  if (machines.length === 0) return new Set();
  const known = await store.includes(KEYED, machines.map(keyedMember));
  return new Set(machines.filter((machine) => known.has(keyedMember(machine))));
}

/** Longer than any machine is valid. */
const LISTED_SECONDS = 400 * 86_400;
const createdKey = (by: string) => `machines-of:${by}`;
const createdMember = (id: string, expiresAt: number) => `${id} ${expiresAt}`;

/** Lists a machine under who creates it. Call before the machine is stored, so that none is missing. */
export async function listCreatedMachine(
  store: Store,
  by: string,
  { id, expiresAt }: { id: string; expiresAt: number },
): Promise<void> {
  await store.addMember(createdKey(by), createdMember(id, expiresAt), LISTED_SECONDS);
}

/** Returns the ids of machines that were listed and have not expired, the one that expires last first. Removes the others. */
export async function createdMachines(store: Store, by: string, now: number): Promise<string[]> {
  const members = await store.members(createdKey(by));
  const listed = members.map((member) => {
    const [id = '', expiresAt] = member.split(' ');
    return { member, id, expiresAt: Number(expiresAt) };
  });
  const expired = listed.filter(({ expiresAt }) => expiresAt <= now);
  await Promise.all(expired.map(({ member }) => store.removeMember(createdKey(by), member)));
  return (
    listed
      .filter(({ expiresAt }) => expiresAt > now)
      .toSorted((one, other) => other.expiresAt - one.expiresAt)
      .map(({ id }) => id)
      // A change of the expiry may have left an entry.
      .filter((id, index, ids) => ids.indexOf(id) === index)
  );
}

/** Undefined if there is no such client or it is not a machine. */
export async function findMachine(
  store: Store,
  id: string,
): Promise<(Machine & { name: string; credentials: string }) | undefined> {
  if (!CLIENT_ID.test(id)) return undefined;
  const stored = (await store.get<MachineClient>(clientKey(id)))?.value;
  if (!stored?.machine) return undefined;
  const { client_name: name, client_secret: secret, jwks, jwks_uri: jwksUri } = stored.metadata;
  const credentials = credentialsText({ secret, jwks, jwksUri });
  return { ...stored.machine, name: String(name), credentials };
}

/** Compares the stored credentials with those of a cached client, which may have been replaced meanwhile. */
export function credentialsText({
  secret,
  jwks,
  jwksUri,
}: Record<'secret' | 'jwks' | 'jwksUri', unknown>): string {
  return JSON.stringify([secret ?? null, jwks ?? null, jwksUri ?? null]);
}

export type PublicKeys = { jwks?: { keys: JWK[] } | undefined; jwksUri?: string | undefined };

/** The public keys in the text of `credentialsText`: none if there is a secret. */
export function publicKeysOf(credentials: string): PublicKeys {
  const [_secret, jwks, jwksUri] = JSON.parse(credentials);
  return { ...(jwks ? { jwks } : {}), ...(jwksUri ? { jwksUri } : {}) };
}

/** Null removes a member. */
export type MachineChange = {
  name?: string;
  expiresAt?: number;
  calls?: string | null;
  key?: string;
  tools?: readonly string[] | null;
};

/** A machine without its credentials. */
export type NamedMachine = { name: string; machine: Machine };

/** The machine as it was and as it is: the same twice if nothing changed. */
export type MachineUpdate = { before: NamedMachine; after: NamedMachine };

/** Undefined if there is no such machine. `next` is pure; what it throws is thrown, and nothing is changed. */
export async function updateMachine(
  store: Store,
  id: string,
  next: (machine: NamedMachine) => NamedMachine,
  now: number,
): Promise<MachineUpdate | undefined> {
  if (!CLIENT_ID.test(id)) return undefined;
  let update: MachineUpdate | undefined;
  const stored = await store.update<MachineClient>(clientKey(id), (current) => {
    const { machine, metadata } = current ?? {};
    update = undefined;
    if (!current || !machine || !metadata) return KEEP;
    const before = { name: String(metadata.client_name), machine };
    const after = next(before);
    update = { before, after };
    if (after === before) return KEEP;
    const value = {
      ...current,
      metadata: { ...metadata, client_name: after.name },
      machine: after.machine,
    };
    return { value, ttl: after.machine.expiresAt - now };
  });
  if (!stored || !update) return undefined;
  const { by, expiresAt } = update.before.machine;
  if (update.after !== update.before) {
    await listKeyed(store, update.after.machine);
    await store.publish(MACHINES_CHANNEL, id).catch(() => undefined);
  }
  if (by !== undefined && expiresAt !== update.after.machine.expiresAt)
    await relist(store, by, id, { from: expiresAt, to: update.after.machine.expiresAt });
  return update;
}

/** Lists a machine with its new expiry, if it was listed. */
async function relist(
  store: Store,
  by: string,
  id: string,
  { from, to }: { from: number; to: number },
): Promise<void> {
  const listed = createdMember(id, from);
  if (!(await store.includes(createdKey(by), [listed])).has(listed)) return;
  await listCreatedMachine(store, by, { id, expiresAt: to });
  await store.removeMember(createdKey(by), listed);
}

/** What a replacement of the key has read. */
type ReplacedMachine = Pick<Machine, 'grantId' | 'expiresAt'> & { name: string };

/** Replaces the credentials, and the grant of the machine `from` by the grant `to`. False if the machine is not the same any more. */
export async function replaceCredentials(
  store: Store,
  id: string,
  { from, to, credentials }: { from: ReplacedMachine; to: string; credentials: Credentials },
  now: number,
): Promise<boolean> {
  let replaced = false;
  await store.update<MachineClient>(clientKey(id), (stored) => {
    const { machine, metadata } = stored ?? {};
    replaced =
      machine?.grantId === from.grantId &&
      machine.expiresAt === from.expiresAt &&
      metadata?.client_name === from.name;
    if (!replaced || !stored || !machine || !metadata) return KEEP;
    const name = String(metadata.client_name);
    return {
      value: {
        ...stored,
        metadata: metadataOf(id, name, credentials),
        machine: { ...machine, grantId: to },
      },
      ttl: machine.expiresAt - now,
    };
  });
  // Processes read it again every few seconds too, so a lost message only delays the new credentials.
  if (replaced) await store.publish(MACHINES_CHANNEL, id).catch(() => undefined);
  return replaced;
}
