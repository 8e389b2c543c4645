// Clients in the store: registered clients, copies of client ID metadata documents, and revoked client ids.
import { createHash } from 'node:crypto';
import { KEEP, type Store } from '../store/store.ts';
import { isListedDocument } from '../settings/document-hosts.ts';
import { type App, type ClientRule, isAllowedApp, isBlocked, listRules } from './rules.ts';

/**
 * In seconds since the epoch. `usedAt` is absent until the first consent, `allowedAt` until an administrator allows the client. `allowedAs` is
 * the `appVersion` of the metadata document that was last allowed or approved by a person.
 */
export type LastUse = { usedAt?: number; allowedAt?: number; allowedAs?: string };

/** Members of RFC 7591. */
export type ClientMetadata = {
  client_name?: string | undefined;
  redirect_uris?: readonly string[] | undefined;
  grant_types?: readonly string[] | undefined;
};

/** The grant type of devices without a browser (RFC 8628 section 3.4). */
export const DEVICE_CODE = 'urn:ietf:params:oauth:grant-type:device_code';

export type StoredClient<Metadata extends ClientMetadata = ClientMetadata> = LastUse & {
  metadata: Metadata;
};

/** `freshUntil` in seconds since the epoch: later authorizations fetch the document again. */
export type StoredDocument<Document extends ClientMetadata = ClientMetadata> = LastUse & {
  document: Document;
  freshUntil: number;
};

/** The ids of registered clients. Ids in the settings may have the same form and take precedence. */
export const CLIENT_ID = /^[\w-]{16,64}$/;

export const clientKey = (id: string) => `client:${id}`;
export const documentKey = (url: string) => `metadata-document:${url}`;

export const CLIENT_KINDS = [
  'self-registered',
  'metadata-document',
  'pre-registered',
  'machine',
] as const;
export type ClientKind = (typeof CLIENT_KINDS)[number];

/** Times are seconds since the epoch. The name and redirect URIs are missing if the registration or the copy of the document has expired. */
export type Client = {
  id: string;
  kind: ClientKind;
  name?: string;
  redirectUris: string[];
  /** Whether it may use the device grant (RFC 8628). */
  usesDevice: boolean;
  lastUsedAt?: number;
  revokedAt?: number;
  /** When a person first tried to connect it as it is. Absent if it does not wait. */
  waitingSince?: number;
  state: ClientState;
  machine?: MachineFacts;
};

/** What a machine connects to, with its level, and when it stops. */
type MachineFacts = { connector: string; level: string; expiresAt: number; key?: string };

/** `waiting` for an administrator to allow it, `blocked` by a rule. */
export const CLIENT_STATES = ['allowed', 'waiting', 'revoked', 'blocked'] as const;
export type ClientState = (typeof CLIENT_STATES)[number];

/** The `clients` settings. */
export type ClientSettings = {
  preRegistered: readonly { id: string; name: string; redirectUris: string[] }[];
  metadataDocuments: readonly { url: string; document: Record<string, unknown> }[];
  metadataDocumentHosts?: readonly string[] | undefined;
  registration: 'open' | 'approval' | 'closed';
};

type Revocation = { revokedAt: number };

const REVOKED = 'revoked-clients:all';
const revocationKey = (id: string) => `revoked-client:${id}`;

export function clientKind(
  id: string,
  { preRegistered }: ClientSettings,
): Exclude<ClientKind, 'machine'> {
  if (preRegistered.some((client) => client.id === id)) return 'pre-registered';
  return id.startsWith('https://') ? 'metadata-document' : 'self-registered';
}

/** Changes with the name and the set of redirect URIs, which are what people and administrators judge. */
export function appVersion({ name = '', redirectUris }: App): string {
  const judged = JSON.stringify([name, ...[...new Set(redirectUris)].sort()]);
  return createHash('sha256').update(judged).digest('base64url');
}

export function documentVersion({
  client_name: name,
  redirect_uris: uris,
}: ClientMetadata): string {
  return appVersion({ ...(name === undefined ? {} : { name }), redirectUris: uris ?? [] });
}

/**
 * Undefined if the client is unknown and not revoked. `stated` is what an authorization request knows of a metadata document: its state is that
 * of this version, even if another process has stored a later one meanwhile.
 */
export async function findClient(
  store: Store,
  id: string,
  settings: ClientSettings,
  stated?: App,
): Promise<Client | undefined> {
  const [known, revokedAt, rules] = await Promise.all([
    findMetadata(readerOf(store), id, settings),
    revokedSince(store, id),
    listRules(store),
  ]);
  return clientOf(store, id, settings, { known, revokedAt, rules, stated });
}

/** Finds several clients, as `findClient` does, in the order of the ids. */
export async function findClients(
  store: Store,
  ids: readonly string[],
  settings: ClientSettings,
  rules: readonly ClientRule[],
): Promise<(Client | undefined)[]> {
  const isRegistered = (id: string) => CLIENT_ID.test(id);
  const documents = ids.filter((id) => !isRegistered(id));
  const keys = [ids.filter(isRegistered).map(clientKey), documents.map(documentKey)];
  const values = new Map<string, unknown>();
  const [revocations] = await Promise.all([
    store.getMany<Revocation>(ids.map(revocationKey)),
    ...keys.map(async (each) => {
      for (const [index, value] of (await store.getMany(each)).entries())
        values.set(each[index] ?? '', value);
    }),
  ]);
  const read = async <T>(key: string) => values.get(key) as T | undefined;
  return Promise.all(
    ids.map(async (id, index) => {
      const known = await findMetadata(read, id, settings);
      const revokedAt = revocations[index]?.revokedAt;
      return clientOf(store, id, settings, { known, revokedAt, rules });
    }),
  );
}

type Stored = {
  known: Known | undefined;
  revokedAt: number | undefined;
  rules: readonly ClientRule[];
  stated?: App | undefined;
};

async function clientOf(
  store: Store,
  id: string,
  settings: ClientSettings,
  { known, revokedAt, rules, stated }: Stored,
): Promise<Client | undefined> {
  if (!known && revokedAt === undefined) return undefined;
  const {
    client_name: name,
    redirect_uris: redirectUris,
    grant_types: grantTypes,
  } = known?.metadata ?? {};
  const lastUsedAt = known?.usedAt;
  const app = {
    id,
    ...(typeof name === 'string' ? { name } : {}),
    redirectUris: Array.isArray(redirectUris) ? redirectUris.map(String) : [],
    usesDevice: Array.isArray(grantTypes) && grantTypes.includes(DEVICE_CODE),
  };
  const judged = stated ?? app;
  // An app that was allowed for redirect URIs may also ask for devices. Only an authorization of a device needs a rule that names them.
  const judgedApp = { ...app, usesDevice: stated?.usesDevice ?? app.redirectUris.length === 0 };
  const isMachine = known?.machine !== undefined;
  const waits =
    !isMachine &&
    !isKnownVersion(known, judged) &&
    needsApproval(id, settings) &&
    !isAllowedApp(rules, judgedApp);
  const state = stateOf(revokedAt, isBlocked(rules, app) || isBlocked(rules, judged), waits);
  const waitingSince = state === 'waiting' ? await waitsSince(store, judged) : undefined;
  return {
    ...app,
    kind: isMachine ? 'machine' : clientKind(id, settings),
    state,
    ...(waitingSince === undefined ? {} : { waitingSince }),
    ...(lastUsedAt === undefined ? {} : { lastUsedAt }),
    ...(revokedAt === undefined ? {} : { revokedAt }),
    ...(known?.machine ? { machine: known.machine } : {}),
  };
}

/** Undefined if people may connect the client. */
export async function findClientRefusal(
  store: Store,
  id: string,
  settings: ClientSettings,
  stated?: App,
): Promise<{ state: Exclude<ClientState, 'allowed'>; client: Client | undefined } | undefined> {
  const client = await findClient(store, id, settings, stated);
  const state = client?.state ?? (needsApproval(id, settings) ? 'waiting' : 'allowed');
  return state === 'allowed' ? undefined : { state, client };
}

/** Returns the state of a client that an administrator has ended. `stated` is what the request knows of the client. */
export async function findEndedState(
  store: Store,
  id: string,
  stated: App,
): Promise<'revoked' | 'blocked' | undefined> {
  const [revokedAt, rules] = await Promise.all([revokedSince(store, id), listRules(store)]);
  if (isBlocked(rules, { ...stated, id })) return 'blocked';
  return revokedAt === undefined ? undefined : 'revoked';
}

/** Whether the client was allowed or approved before. A metadata document that has changed since then is not known. */
function isKnownVersion(known: LastUse | undefined, judged: App): boolean {
  if (known?.usedAt === undefined && known?.allowedAt === undefined) return false;
  return known.allowedAs === undefined || known.allowedAs === appVersion(judged);
}

function stateOf(revokedAt: number | undefined, blocked: boolean, waits: boolean): ClientState {
  if (blocked) return 'blocked';
  if (revokedAt !== undefined) return 'revoked';
  return waits ? 'waiting' : 'allowed';
}

/** Clients of the settings never wait: pre-registered ones, listed documents, and documents on listed hosts. */
function needsApproval(
  id: string,
  { preRegistered, metadataDocuments, metadataDocumentHosts = [], registration }: ClientSettings,
): boolean {
  if (registration === 'open') return false;
  if (preRegistered.some((client) => client.id === id)) return false;
  if (!id.startsWith('https://')) return true;
  const isListed = metadataDocuments.some(({ url }) => url === id);
  return !isListed && !isListedDocument(metadataDocumentHosts, id);
}

type Known = LastUse & { metadata: ClientMetadata; machine?: MachineFacts };

type Read = <T>(key: string) => Promise<T | undefined>;

function readerOf(store: Store): Read {
  return async <T>(key: string) => (await store.get<T>(key))?.value;
}

async function findMetadata(
  read: Read,
  id: string,
  { preRegistered, metadataDocuments }: ClientSettings,
): Promise<Known | undefined> {
  const fixed = preRegistered.find((client) => client.id === id);
  if (fixed) return { metadata: { client_name: fixed.name, redirect_uris: fixed.redirectUris } };
  if (CLIENT_ID.test(id)) return read<StoredClient>(clientKey(id));
  const pinned = metadataDocuments.find(({ url }) => url === id);
  if (pinned) return { metadata: pinned.document };
  const copy = await read<StoredDocument>(documentKey(id));
  return copy && { ...copy, metadata: copy.document };
}

/**
 * Refuses a client until `allowClient`. A deleted record would not suffice, because clients can register again. True for the one call that
 * revoked it. Does not end its grants.
 */
export async function revokeClient(store: Store, id: string, now: number): Promise<boolean> {
  await store.addMember(REVOKED, id, Infinity);
  let first = false;
  await store.update<Revocation>(revocationKey(id), (current) => {
    first = current === undefined;
    return first ? { value: { revokedAt: Math.floor(now) }, ttl: Infinity } : KEEP;
  });
  await store.replicated(revocationKey(id));
  return first;
}

/**
 * Allows new connections; ended grants stay ended. True for the one call that changed something. Of a metadata document, only the given name
 * and redirect URIs are allowed. `lifetime` in seconds: for how long the approval is kept until the first connection.
 */
export async function allowClient(
  store: Store,
  client: Client,
  { now, lifetime }: { now: number; lifetime: number },
): Promise<boolean> {
  const { id } = client;
  const taken = await store.take<Revocation>(revocationKey(id));
  await store.removeMember(REVOKED, id);
  const isDocument = !CLIENT_ID.test(id);
  const version = isDocument ? { allowedAs: appVersion(client) } : {};
  let changed = false;
  await store.update<LastUse>(isDocument ? documentKey(id) : clientKey(id), (record) => {
    const isAllowed = record?.allowedAt !== undefined && record.allowedAs === version.allowedAs;
    changed = record !== undefined && !isAllowed;
    const allowed = { ...record, ...version, allowedAt: Math.floor(now) };
    return changed ? { value: allowed, ttl: lifetime } : KEEP;
  });
  if (changed) await listClient(store, 'allowed', id, { now, lifetime });
  return taken !== undefined || changed;
}

/** Seconds since the epoch. Undefined if the client is not revoked. */
async function revokedSince(store: Store, id: string): Promise<number | undefined> {
  return (await store.get<Revocation>(revocationKey(id)))?.value.revokedAt;
}

/** The keys of the sets of clients that wait, were revoked or allowed. See `listClient` for the lifetimes. */
export function clientSets({ now, unusedClient, usedClient }: ListLifetimes) {
  const periodsOf = (list: ClientList, lifetime: number) => {
    const period = Math.floor(now / lifetime);
    return [period, period - 1].map((each) => listKey(list, each));
  };
  return {
    waiting: periodsOf('waiting', unusedClient),
    revoked: [REVOKED],
    allowed: periodsOf('allowed', usedClient),
  };
}

type ListLifetimes = { now: number; unusedClient: number; usedClient: number };

type Waiting = { since: number };

const waitingKey = (app: App) => `waiting-client:${app.id} ${appVersion(app)}`;

/** Lists a client as waiting until its registration expires. True for the first call about this name and these redirect URIs. */
export async function listWaiting(
  store: Store,
  app: App & { id: string },
  times: { now: number; lifetime: number },
): Promise<boolean> {
  await listClient(store, 'waiting', app.id, times);
  const waiting = { since: Math.floor(times.now) };
  return store.add<Waiting>(waitingKey(app), waiting, 2 * times.lifetime);
}

async function waitsSince(store: Store, app: App): Promise<number | undefined> {
  return (await store.get<Waiting>(waitingKey(app)))?.value.since;
}

/**
 * Lists a client until the record about it expires. `now` in seconds, and `lifetime` of such a record: `unusedClient` for clients that wait,
 * `usedClient` for clients that an administrator allowed.
 */
async function listClient(
  store: Store,
  list: ClientList,
  id: string,
  { now, lifetime }: { now: number; lifetime: number },
): Promise<void> {
  await store.addMember(listKey(list, Math.floor(now / lifetime)), id, 2 * lifetime);
}

type ClientList = 'waiting' | 'allowed';

/** One set per lifetime, so that old sets expire as a whole. */
const listKey = (list: ClientList, period: number) => `${list}-clients:${period}`;
