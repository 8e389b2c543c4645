// The clients that people connected with: what is known of each, and the ones that an administrator revoked.
import { KEEP, type Store } from '../store/store.ts';
import {
  CLIENT_ID,
  clientKey,
  type ClientMetadata,
  documentKey,
  type StoredClient,
  type StoredDocument,
} from './stored-clients.ts';

export const CLIENT_KINDS = ['self-registered', 'metadata-document', 'pre-registered'] as const;
export type ClientKind = (typeof CLIENT_KINDS)[number];

/** Times are seconds. Without a `name` and redirects: the registration or the copy of the document has run out. */
export type Client = {
  id: string;
  kind: ClientKind;
  name?: string;
  redirectUris: string[];
  lastUsedAt?: number;
  revokedAt?: number;
};

/** What the settings say of clients. */
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

/** Undefined when nothing is known of it, not even that it was revoked. */
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
 * Refused from now on, for ever: an app that is merely forgotten would come back the next time somebody connects. True for the one
 * call that did it. Its grants are not touched.
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

/** People may connect with it again; what they had stays ended. True when it had been revoked. */
export async function allowClient(store: Store, id: string): Promise<boolean> {
  const taken = await store.take<Revocation>(revocationKey(id));
  await store.removeMember(REVOKED, id);
  return taken !== undefined;
}

/** When it was revoked, in seconds; undefined while it may be used. */
export async function revokedSince(store: Store, id: string): Promise<number | undefined> {
  return (await store.get<Revocation>(revocationKey(id)))?.value.revokedAt;
}

export async function revokedClients(store: Store): Promise<string[]> {
  return store.members(REVOKED);
}
