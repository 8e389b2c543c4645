// Minted tokens: access tokens (RFC 9068) that an administrator creates for clients without OAuth. A token is valid only while its record exists.
import { randomBytes } from 'node:crypto';
import { importJWK, SignJWT } from 'jose';
import { SIGNING_ALGORITHM, reserveSigningKey } from '../keys/signing-keys.ts';
import type { Level } from '../permission-levels.ts';
import { KEEP, type Store } from '../store/store.ts';

/** Carries the id of a minted token that was changed or revoked. */
export const MINTED_TOKENS_CHANNEL = 'minted-tokens';

/** Times are seconds since the epoch. The token itself is not stored. */
export type MintedToken = {
  /** 32 hexadecimal digits; ids sort by age. */
  id: string;
  name: string;
  level: Level;
  /** The id of the MCP server that it leads to. Absent for the sample, and in records of earlier versions. */
  upstream?: string;
  /** What it opens of the MCP server: patterns. Absent: everything of the level. */
  tools?: readonly string[];
  createdAt: number;
  /** Who minted it, as in the audit log. Absent in records of earlier versions. */
  by?: string;
  expiresAt: number;
  /** Limit on its calls, as the settings write rates. */
  calls?: string;
  /** The last characters of the token, shown in lists. */
  lastFour: string;
  /** The `kid` of the key that signed it. */
  keyId: string;
  lastUsedAt?: number;
};

export type NewMintedToken = Pick<
  MintedToken,
  'name' | 'level' | 'upstream' | 'tools' | 'expiresAt' | 'calls'
>;

const ALL = 'minted-tokens:all';
const USE_INTERVAL_SECONDS = 60;
export const MINTED_TOKEN_ID = /^[0-9a-f]{32}$/;
const tokenKey = (id: string) => `minted-token:${id}`;

/** The only audience of minted tokens. */
export function mintedAudience(resourceUrl: string): string {
  return `${resourceUrl}/mcp`;
}

/** The `sub` and `client_id` of a minted token. Cannot equal other ids: those have no colon, or are URLs. */
export function mintedSubject(id: string): string {
  return `minted:${id}`;
}

/** The id in a `mintedSubject`. Undefined for any other text. */
export function mintedTokenId(subject: string): string | undefined {
  const [prefix, id = ''] = subject.split(':');
  return prefix === 'minted' && MINTED_TOKEN_ID.test(id) ? id : undefined;
}

/** Resolves when the record is stored. `by` is who mints it. The signing key stays published until the token expires, unless keys are rotated at once. */
export async function mintToken(
  store: Store,
  { name, level, upstream, tools, expiresAt, calls, by }: NewMintedToken & { by?: string },
  { issuer, resourceUrl }: { issuer: string; resourceUrl: string },
  now: number,
  id = newMintedTokenId(now),
): Promise<{ record: MintedToken; token: string }> {
  const createdAt = Math.floor(now);
  const expiry = Math.floor(expiresAt);
  const { jwk } = await reserveSigningKey(store, expiry, now);
  const token = await new SignJWT({ client_id: mintedSubject(id), scope: level })
    .setProtectedHeader({ alg: SIGNING_ALGORITHM, typ: 'at+jwt', kid: jwk.kid })
    .setIssuer(issuer)
    .setAudience(mintedAudience(resourceUrl))
    .setSubject(mintedSubject(id))
    .setJti(id)
    .setIssuedAt(createdAt)
    .setExpirationTime(expiry)
    .sign(await importJWK(jwk, SIGNING_ALGORITHM));
  const record: MintedToken = {
    id,
    name,
    level,
    ...(upstream === undefined ? {} : { upstream }),
    ...(tools === undefined ? {} : { tools }),
    createdAt,
    ...(by === undefined ? {} : { by }),
    expiresAt: expiry,
    ...(calls === undefined ? {} : { calls }),
    lastFour: token.slice(-4),
    keyId: jwk.kid,
  };
  await store.add(tokenKey(id), record, expiry - now);
  await store.addMember(ALL, memberOf(record), Infinity);
  return { record, token };
}

export function newMintedTokenId(now: number): string {
  const milliseconds = Math.floor(now * 1000).toString(16);
  return milliseconds.padStart(12, '0') + randomBytes(10).toString('hex');
}

/** The list has the expiry, so that an expired entry can be removed even if this process cannot decrypt its record. */
function memberOf({ id, expiresAt }: MintedToken): string {
  return `${id} ${expiresAt}`;
}

function idOf(member: string): string {
  return member.split(' ')[0] ?? '';
}

function expiryOf(member: string): number {
  return Number(member.split(' ')[1]);
}

export async function findMintedToken(store: Store, id: string): Promise<MintedToken | undefined> {
  return MINTED_TOKEN_ID.test(id) ? (await store.get<MintedToken>(tokenKey(id)))?.value : undefined;
}

/** Oldest first. Removes expired tokens from the list. */
export async function listMintedTokens(store: Store, now: number): Promise<MintedToken[]> {
  const members = await store.members(ALL);
  const expired = members.filter((member) => expiryOf(member) <= now);
  await Promise.all(expired.map((member) => store.removeMember(ALL, member)));
  const ids = members.filter((member) => !expired.includes(member)).map(idOf);
  // A change of the expiry may have left an entry.
  const found = await Promise.all([...new Set(ids)].map((id) => findMintedToken(store, id)));
  return found.filter((token) => token !== undefined).sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** Null removes a member. */
export type MintedTokenChange = {
  name?: string;
  expiresAt?: number;
  tools?: readonly string[] | null;
  calls?: string | null;
};

/** The record as it was and as it is: the same twice if nothing changed. */
export type MintedTokenUpdate = { before: MintedToken; after: MintedToken };

/** Undefined if there is no such token. `next` is pure; what it throws is thrown, and nothing is changed. */
export async function updateMintedToken(
  store: Store,
  id: string,
  next: (token: MintedToken) => MintedToken,
  now: number,
): Promise<MintedTokenUpdate | undefined> {
  if (!MINTED_TOKEN_ID.test(id)) return undefined;
  let update: MintedTokenUpdate | undefined;
  const stored = await store.update<MintedToken>(tokenKey(id), (before) => {
    const after = before && next(before);
    update = before && after && { before, after };
    return after && after !== before ? { value: after, ttl: after.expiresAt - now } : KEEP;
  });
  if (!stored || !update) return undefined;
  const { before, after } = update;
  if (after !== before) await announce(store, id);
  if (memberOf(after) !== memberOf(before)) {
    await store.addMember(ALL, memberOf(after), Infinity);
    await store.removeMember(ALL, memberOf(before));
  }
  return update;
}

async function announce(store: Store, id: string): Promise<void> {
  // Listeners also refresh every few seconds, so a lost message only delays them.
  await store.publish(MINTED_TOKENS_CHANNEL, id).catch(() => undefined);
  await store.replicated(tokenKey(id));
}

/** Exactly one of concurrent callers gets the revoked record. */
export async function revokeMintedToken(
  store: Store,
  id: string,
): Promise<MintedToken | undefined> {
  if (!MINTED_TOKEN_ID.test(id)) return undefined;
  const record = await store.take<MintedToken>(tokenKey(id));
  await announce(store, id);
  // If this fails, the entry is not listed without its record, and is removed after its expiry.
  if (record) await store.removeMember(ALL, memberOf(record)).catch(() => undefined);
  return record;
}

/** Writes at most once a minute for each token, and never for a token that was revoked meanwhile. */
export async function recordLastUse(store: Store, { id }: MintedToken, now: number): Promise<void> {
  await store.update<MintedToken>(tokenKey(id), (token) =>
    token && now - (token.lastUsedAt ?? 0) >= USE_INTERVAL_SECONDS
      ? { value: { ...token, lastUsedAt: now }, ttl: token.expiresAt - now }
      : KEEP,
  );
}
