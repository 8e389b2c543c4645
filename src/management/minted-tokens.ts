// Minted tokens as administrators manage them: minted, listed and revoked; the token itself is in one answer only.
import { recordAudit } from '../audit/audit.ts';
import { notFound } from '../http/errors.ts';
import { openSigningKeys, publishedKeys } from '../keys/signing-keys.ts';
import {
  listMintedTokens,
  mintedSubject,
  type MintedToken,
  mintToken as mint,
  type NewMintedToken,
  revokeMintedToken,
} from '../minted-tokens/minted-tokens.ts';
import {
  firstPage,
  isoTime,
  mintedTokenResource,
  type MintedTokenResource,
  mintedTokenPage,
  mintedTokenSchema,
  type NewTokenResource,
  newTokenSchema,
  type Page,
} from './api/resources.ts';
import { newToken, tokensQuery } from './api/requests.ts';
import { NOT_FOUND, route } from './api/routes.ts';
import type { ManagementServices } from './services.ts';

export const mintedTokenRoutes = [
  route({
    method: 'post',
    path: '/tokens',
    name: 'mintToken',
    summary: 'Mints a token. It is in this answer and nowhere else.',
    body: newToken,
    status: 201,
    answer: newTokenSchema,
    handle: (services, { body }) => mintToken(services, body),
  }),
  route({
    method: 'get',
    path: '/tokens',
    name: 'listTokens',
    summary: 'Lists minted tokens that did not expire, the oldest first.',
    query: tokensQuery,
    answer: mintedTokenPage,
    handle: (services, { query }) => listTokens(services, query),
  }),
  route({
    method: 'delete',
    path: '/tokens/:id',
    name: 'revokeToken',
    summary: 'Revokes a minted token: it works no longer.',
    answer: mintedTokenSchema,
    refusals: NOT_FOUND,
    handle: (services, { id }) => revokeToken(services, id),
  }),
];

export async function mintToken(
  services: ManagementServices,
  wanted: NewMintedToken,
): Promise<NewTokenResource> {
  const { store, authUrl, resourceUrl, now } = services;
  const { record, token } = await mint(store, wanted, { issuer: authUrl, resourceUrl }, now());
  await auditMinted(services, record);
  const { id, name, level, expiresAt } = record;
  return { id, name, level, token, expiresAt: isoTime(expiresAt) };
}

export async function listTokens(
  { store, now }: ManagementServices,
  { limit, after = '' }: { limit: number; after?: string | undefined },
): Promise<Page<MintedTokenResource>> {
  const tokens = (await listMintedTokens(store, now())).filter(({ id }) => id > after);
  const { items, next } = firstPage(tokens, limit);
  const keys = await publishedKeyIds(store, now());
  return { items: items.map((item) => mintedTokenResource(item, keys)), next };
}

export async function revokeToken(
  { store, by, now }: ManagementServices,
  id: string,
): Promise<MintedTokenResource> {
  const record = await revokeMintedToken(store, id);
  if (!record) throw notFound('there is no minted token with this id');
  const item = { event: 'token_revoked', clientId: mintedSubject(id), by, outcome: 'done' };
  await recordAudit(store, item, now());
  return mintedTokenResource(record, await publishedKeyIds(store, now()));
}

async function publishedKeyIds(store: ManagementServices['store'], now: number): Promise<string[]> {
  const keys = publishedKeys(await openSigningKeys(store, now), now);
  return keys.map(({ jwk }) => jwk.kid);
}

/** Calls made with the token are recorded under the same client; its name is nowhere else once it is revoked. */
async function auditMinted({ store, by, now }: ManagementServices, record: MintedToken) {
  const { id, name, level, expiresAt } = record;
  const given = { name, level, expiresAt: isoTime(expiresAt) };
  const item = { event: 'token_minted', clientId: mintedSubject(id), by, arguments: given };
  await recordAudit(store, { ...item, outcome: 'done' }, now());
}
