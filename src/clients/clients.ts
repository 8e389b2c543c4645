// Clients in the store: registered clients, copies of client ID metadata documents, and revoked client ids.
import { KEEP, type Store } from '../store/store.ts';
import { isListedDocument } from './document-hosts.ts';
import { isAllowedApp, isBlocked, listRules } from './rules.ts';

/** In seconds since the epoch. `usedAt` is absent until the first consent, `allowedAt` until an administrator allows the client. */
export type LastUse = { usedAt?: number; allowedAt?: number };

/** Members of RFC 7591. */
export type ClientMetadata = {
  client_name?: string | undefined;
  redirect_uris?: readonly string[] | undefined;
};

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

export const CLIENT_KINDS = ['self-registered', 'metadata-document', 'pre-registered'] as const;
export type ClientKind = (typeof CLIENT_KINDS)[number];

/** Times are seconds since the epoch. The name and redirect URIs are missing if the registration or the copy of the document has expired. */
export type Client = {
  id: string;
  kind: ClientKind;
  name?: string;
  redirectUris: string[];
  lastUsedAt?: number;
  revokedAt?: number;
  state: ClientState;
};

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

export function clientKind(id: string, { preRegistered }: ClientSettings): ClientKind {
  if (preRegistered.some((client) => client.id === id)) return 'pre-registered';
  return id.startsWith('https://') ? 'metadata-document' : 'self-registered';
}

/** Undefined if the client is unknown and not revoked. */
export async function findClient(
  store: Store,
  id: string,
  settings: ClientSettings,
): Promise<Client | undefined> {
  const [known, revokedAt, rules] = await Promise.all([
    findMetadata(store, id, settings),
    revokedSince(store, id),
    listRules(store),
  ]);
  if (!known && revokedAt === undefined) return undefined;
  const { client_name: name, redirect_uris: redirectUris } = known?.metadata ?? {};
  const lastUsedAt = known?.usedAt;
  const app = {
    id,
    ...(typeof name === 'string' ? { name } : {}),
    redirectUris: Array.isArray(redirectUris) ? redirectUris.map(String) : [],
  };
  const isKnown = lastUsedAt !== undefined || known?.allowedAt !== undefined;
  const waits = !isKnown && needsApproval(id, settings) && !isAllowedApp(rules, app);
  return {
    ...app,
    kind: clientKind(id, settings),
    state: stateOf(revokedAt, isBlocked(rules, app), waits),
    ...(lastUsedAt === undefined ? {} : { lastUsedAt }),
    ...(revokedAt === undefined ? {} : { revokedAt }),
  };
}

/** Undefined if people may connect the client. */
export async function findClientRefusal(
  store: Store,
  id: string,
  settings: ClientSettings,
): Promise<{ state: Exclude<ClientState, 'allowed'>; client: Client | undefined } | undefined> {
  const client = await findClient(store, id, settings);
  const state = client?.state ?? (needsApproval(id, settings) ? 'waiting' : 'allowed');
  return state === 'allowed' ? undefined : { state, client };
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

type Known = LastUse & { metadata: ClientMetadata };

async function findMetadata(
  store: Store,
  id: string,
  { preRegistered, metadataDocuments }: ClientSettings,
): Promise<Known | undefined> {
  const fixed = preRegistered.find((client) => client.id === id);
  if (fixed) return { metadata: { client_name: fixed.name, redirect_uris: fixed.redirectUris } };
  if (CLIENT_ID.test(id)) return (await store.get<StoredClient>(clientKey(id)))?.value;
  const pinned = metadataDocuments.find(({ url }) => url === id);
  if (pinned) return { metadata: pinned.document };
  const copy = (await store.get<StoredDocument>(documentKey(id)))?.value;
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
 * Allows new connections; ended grants stay ended. True if the client was revoked or waited. `lifetime` in seconds: for how long the
 * approval is kept until the first connection.
 */
export async function allowClient(
  store: Store,
  { id, state }: Pick<Client, 'id' | 'state'>,
  { now, lifetime }: { now: number; lifetime: number },
): Promise<boolean> {
  const taken = await store.take<Revocation>(revocationKey(id));
  await store.removeMember(REVOKED, id);
  const key = CLIENT_ID.test(id) ? clientKey(id) : documentKey(id);
  let first = false;
  await store.update<LastUse>(key, (record) => {
    first = record !== undefined && record.allowedAt === undefined;
    return first ? { value: { ...record, allowedAt: Math.floor(now) }, ttl: lifetime } : KEEP;
  });
  return taken !== undefined || (state === 'waiting' && first);
}

/** Seconds since the epoch. Undefined if the client is not revoked. */
async function revokedSince(store: Store, id: string): Promise<number | undefined> {
  return (await store.get<Revocation>(revocationKey(id)))?.value.revokedAt;
}

export async function revokedClients(store: Store): Promise<string[]> {
  return store.members(REVOKED);
}

/** Lists a client until its unused registration expires. `lifetime` of such a registration and `now` in seconds. */
export async function listWaiting(
  store: Store,
  id: string,
  { now, lifetime }: { now: number; lifetime: number },
): Promise<void> {
  await store.addMember(waitingKey(Math.floor(now / lifetime)), id, 2 * lifetime);
}

/** The ids of clients that waited at some time within their lifetime. */
export async function waitingClients(
  store: Store,
  { now, lifetime }: { now: number; lifetime: number },
): Promise<string[]> {
  const period = Math.floor(now / lifetime);
  const sets = [period - 1, period].map((each) => store.members(waitingKey(each)));
  return (await Promise.all(sets)).flat();
}

/** One set per lifetime of an unused registration, so that old sets expire as a whole. */
const waitingKey = (period: number) => `waiting-clients:${period}`;
