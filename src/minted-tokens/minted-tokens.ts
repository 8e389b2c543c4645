// Minted tokens: access tokens that an administrator makes for clients without OAuth; each is good only while its record is found.
import { randomBytes } from 'node:crypto';
import { importJWK, SignJWT } from 'jose';
import { SIGNING_ALGORITHM, type SigningKey } from '../keys/signing-keys.ts';
import type { Level } from '../permission-level.ts';
import { KEEP, type Store } from '../store/store.ts';

/** Carries the id of a minted token that was revoked. */
export const MINTED_TOKENS_CHANNEL = 'minted-tokens';

/** Times are seconds since the epoch. The token itself is not kept. */
export type MintedToken = {
  id: string;
  name: string;
  level: Level;
  createdAt: number;
  expiresAt: number;
  /** The end of the token, to tell one from another. */
  lastFour: string;
  lastUsedAt?: number;
};

export type NewMintedToken = { name: string; level: Level; expiresAt: number };

/** `key` signs: the newest, so that no key retires before the tokens it made. */
export type Mint = { issuer: string; audience: string; key: SigningKey };

const ALL = 'minted-tokens:all';
const USE_NOTED_EVERY = 60;
const ID = /^[\w-]{22}$/;
const tokenKey = (id: string) => `minted-token:${id}`;

/** The only audience of minted tokens. */
export function mintedAudience(resourceUrl: string): string {
  return `${resourceUrl}/mcp`;
}

/** A JWT like any other access token (RFC 9068), without a person or a grant behind it. Resolves when its record is stored. */
export async function mintToken(
  store: Store,
  { name, level, expiresAt }: NewMintedToken,
  { issuer, audience, key }: Mint,
  now: number,
): Promise<{ record: MintedToken; token: string }> {
  const id = randomBytes(16).toString('base64url');
  const token = await new SignJWT({ client_id: subjectOf(id), scope: level })
    .setProtectedHeader({ alg: SIGNING_ALGORITHM, typ: 'at+jwt', kid: key.jwk.kid })
    .setIssuer(issuer)
    .setAudience(audience)
    .setSubject(subjectOf(id))
    .setJti(id)
    .setIssuedAt(Math.floor(now))
    .setExpirationTime(Math.floor(expiresAt))
    .sign(await importJWK(key.jwk, SIGNING_ALGORITHM));
  const record: MintedToken = {
    id,
    name,
    level,
    createdAt: now,
    expiresAt,
    lastFour: token.slice(-4),
  };
  await store.add(tokenKey(id), record, expiresAt - now);
  await store.addMember(ALL, id, Infinity);
  return { record, token };
}

/** No account has such a subject: those are 27 characters without a colon. */
function subjectOf(id: string): string {
  return `minted:${id}`;
}

export async function findMintedToken(store: Store, id: string): Promise<MintedToken | undefined> {
  return ID.test(id) ? (await store.get<MintedToken>(tokenKey(id)))?.value : undefined;
}

/** Oldest first; those that expired are forgotten on the way. */
export async function listMintedTokens(store: Store): Promise<MintedToken[]> {
  const ids = await store.members(ALL);
  const found = await Promise.all(ids.map((id) => findMintedToken(store, id)));
  await Promise.all(
    ids.filter((_, index) => !found[index]).map((id) => store.removeMember(ALL, id)),
  );
  return found
    .filter((token) => token !== undefined)
    .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
}

/** The record it had; exactly one of several callers gets it. */
export async function revokeMintedToken(
  store: Store,
  id: string,
): Promise<MintedToken | undefined> {
  if (!ID.test(id)) return undefined;
  const record = await store.take<MintedToken>(tokenKey(id));
  await store.replicated(tokenKey(id));
  await store.removeMember(ALL, id);
  // Listeners read again every few seconds anyway, so a message that cannot be sent undoes nothing.
  await store.publish(MINTED_TOKENS_CHANNEL, id).catch(() => undefined);
  return record;
}

/** At most once a minute for each token, and never for one that was revoked meanwhile. */
export async function noteUse(
  store: Store,
  { id, lastUsedAt = 0 }: MintedToken,
  now: number,
): Promise<void> {
  if (now - lastUsedAt < USE_NOTED_EVERY) return;
  await store.update<MintedToken>(tokenKey(id), (token) =>
    token ? { value: { ...token, lastUsedAt: now }, ttl: token.expiresAt - now } : KEEP,
  );
}
