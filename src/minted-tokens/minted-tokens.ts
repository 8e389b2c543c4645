// Minted tokens: access tokens (RFC 9068) that an administrator makes for clients without OAuth; each is good only while its record is found.
import { randomBytes } from 'node:crypto';
import { importJWK, SignJWT } from 'jose';
import { SIGNING_ALGORITHM, reserveSigningKey } from '../keys/signing-keys.ts';
import type { Level } from '../permission-level.ts';
import { KEEP, type Store } from '../store/store.ts';

/** Carries the id of a minted token that was revoked. */
export const MINTED_TOKENS_CHANNEL = 'minted-tokens';

/** Times are seconds since the epoch. The token itself is not kept. */
export type MintedToken = {
  /** 32 hexadecimal digits; ids sort by age. */
  id: string;
  name: string;
  level: Level;
  createdAt: number;
  expiresAt: number;
  /** The end of the token, to tell one from another. */
  lastFour: string;
  /** The key that signed it. */
  keyId: string;
  lastUsedAt?: number;
};

export type NewMintedToken = { name: string; level: Level; expiresAt: number };

const ALL = 'minted-tokens:all';
const USE_NOTED_EVERY = 60;
export const MINTED_TOKEN_ID = /^[0-9a-f]{32}$/;
const tokenKey = (id: string) => `minted-token:${id}`;

/** The only audience of minted tokens. */
export function mintedAudience(resourceUrl: string): string {
  return `${resourceUrl}/mcp`;
}

/** What a minted token goes by as a client and as an account. No other has such a name: those have no colon, or are URLs. */
export function mintedSubject(id: string): string {
  return `minted:${id}`;
}

/** Resolves when the record is stored. The key that signs stays published until the token expires, unless it is replaced at once. */
export async function mintToken(
  store: Store,
  { name, level, expiresAt }: NewMintedToken,
  { issuer, resourceUrl }: { issuer: string; resourceUrl: string },
  now: number,
): Promise<{ record: MintedToken; token: string }> {
  const id = createId(now);
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
    createdAt,
    expiresAt: expiry,
    lastFour: token.slice(-4),
    keyId: jwk.kid,
  };
  await store.add(tokenKey(id), record, expiry - now);
  await store.addMember(ALL, memberOf(record), Infinity);
  return { record, token };
}

function createId(now: number, random: (size: number) => Buffer = randomBytes): string {
  const milliseconds = Math.floor(now * 1000).toString(16);
  return milliseconds.padStart(12, '0') + random(10).toString('hex');
}

/** With the expiry, so that it can be forgotten without the record: what this process cannot open may be good elsewhere. */
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

/** Oldest first; those that expired are forgotten on the way. */
export async function listMintedTokens(store: Store, now: number): Promise<MintedToken[]> {
  const members = await store.members(ALL);
  const over = members.filter((member) => expiryOf(member) <= now);
  await Promise.all(over.map((member) => store.removeMember(ALL, member)));
  const ids = members.filter((member) => !over.includes(member)).map(idOf);
  const found = await Promise.all(ids.map((id) => findMintedToken(store, id)));
  return found.filter((token) => token !== undefined).sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** The record it had; exactly one of several callers gets it. */
export async function revokeMintedToken(
  store: Store,
  id: string,
): Promise<MintedToken | undefined> {
  if (!MINTED_TOKEN_ID.test(id)) return undefined;
  const record = await store.take<MintedToken>(tokenKey(id));
  // Listeners read again every few seconds anyway, so a message that cannot be sent undoes nothing.
  await store.publish(MINTED_TOKENS_CHANNEL, id).catch(() => undefined);
  await store.replicated(tokenKey(id));
  // It is not listed without its record, and forgotten when it would have expired.
  if (record) await store.removeMember(ALL, memberOf(record)).catch(() => undefined);
  return record;
}

/** At most once a minute for each token, and never for one that was revoked meanwhile. */
export async function noteUse(store: Store, { id }: MintedToken, now: number): Promise<void> {
  await store.update<MintedToken>(tokenKey(id), (token) =>
    token && now - (token.lastUsedAt ?? 0) >= USE_NOTED_EVERY
      ? { value: { ...token, lastUsedAt: now }, ttl: token.expiresAt - now }
      : KEEP,
  );
}
