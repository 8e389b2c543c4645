// Clients in the store: registered clients, copies of client ID metadata documents, and revoked client ids.
import { KEEP, type Store } from '../store/store.ts';

/** `usedAt` in seconds since the epoch. Absent until the first consent. */
export type LastUse = { usedAt?: number };

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
};

/** The `clients` settings. */
export type ClientSettings = {
  preRegistered: readonly { id: string; name: string; redirectUris: string[] }[];
  metadataDocuments: readonly { url: string; document: Record<string, unknown> }[];
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
  const [known, revokedAt] = await Promise.all([
    findMetadata(store, id, settings),
    revokedSince(store, id),
  ]);
  if (!known && revokedAt === undefined) return undefined;
  const { client_name: name, redirect_uris: redirectUris } = known?.metadata ?? {};
  const lastUsedAt = known?.usedAt;
  return {
    id,
    kind: clientKind(id, settings),
    ...(typeof name === 'string' ? { name } : {}),
    redirectUris: Array.isArray(redirectUris) ? redirectUris.map(String) : [],
    ...(lastUsedAt === undefined ? {} : { lastUsedAt }),
    ...(revokedAt === undefined ? {} : { revokedAt }),
  };
}

type Known = { metadata: ClientMetadata; usedAt?: number };

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

/** Allows new connections; ended grants stay ended. True if the client was revoked. */
export async function allowClient(store: Store, id: string): Promise<boolean> {
  const taken = await store.take<Revocation>(revocationKey(id));
  await store.removeMember(REVOKED, id);
  return taken !== undefined;
}

/** Seconds since the epoch. Undefined if the client is not revoked. */
export async function revokedSince(store: Store, id: string): Promise<number | undefined> {
  return (await store.get<Revocation>(revocationKey(id)))?.value.revokedAt;
}

export async function revokedClients(store: Store): Promise<string[]> {
  return store.members(REVOKED);
}
