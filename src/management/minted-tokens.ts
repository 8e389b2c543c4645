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
  mintedTokenDocument,
  type MintedTokenDocument,
  mintedTokenPage,
  mintedTokenSchema,
  type NewTokenDocument,
  newTokenSchema,
  type Page,
} from './api/resources.ts';
import { newToken, tokensQuery } from './api/requests.ts';
import { type ManagementTools, NOT_FOUND, route } from './api/routes.ts';

export const mintedTokenRoutes = [
  route({
    method: 'post',
    path: '/tokens',
    name: 'mintToken',
    summary: 'Mints a token. It is in this answer and nowhere else.',
    body: newToken,
    status: 201,
    answer: newTokenSchema,
    handle: (tools, { body }) => mintToken(tools, body),
  }),
  route({
    method: 'get',
    path: '/tokens',
    name: 'listTokens',
    summary: 'Lists minted tokens that did not expire, the oldest first.',
    query: tokensQuery,
    answer: mintedTokenPage,
    handle: (tools, { query }) => listTokens(tools, query),
  }),
  route({
    method: 'delete',
    path: '/tokens/:id',
    name: 'revokeToken',
    summary: 'Revokes a minted token: it works no longer.',
    answer: mintedTokenSchema,
    refusals: NOT_FOUND,
    handle: (tools, { id }) => revokeToken(tools, id),
  }),
];

export async function mintToken(
  tools: ManagementTools,
  wanted: NewMintedToken,
): Promise<NewTokenDocument> {
  const { store, authUrl, resourceUrl, now } = tools;
  const { record, token } = await mint(store, wanted, { issuer: authUrl, resourceUrl }, now());
  await auditMinted(tools, record);
  const { id, name, level, expiresAt } = record;
  return { id, name, level, token, expiresAt: isoTime(expiresAt) };
}

export async function listTokens(
  { store, now }: ManagementTools,
  { limit, after = '' }: { limit: number; after?: string | undefined },
): Promise<Page<MintedTokenDocument>> {
  const tokens = (await listMintedTokens(store, now())).filter(({ id }) => id > after);
  const { items, next } = firstPage(tokens, limit);
  const keys = await publishedKeyIds(store, now());
  return { items: items.map((item) => mintedTokenDocument(item, keys)), next };
}

export async function revokeToken(
  { store, by, now }: ManagementTools,
  id: string,
): Promise<MintedTokenDocument> {
  const record = await revokeMintedToken(store, id);
  if (!record) throw notFound('there is no minted token with this id');
  const item = { event: 'token_revoked', clientId: mintedSubject(id), by, outcome: 'done' };
  await recordAudit(store, item, now());
  return mintedTokenDocument(record, await publishedKeyIds(store, now()));
}

async function publishedKeyIds(store: ManagementTools['store'], now: number): Promise<string[]> {
  const keys = publishedKeys(await openSigningKeys(store, now), now);
  return keys.map(({ jwk }) => jwk.kid);
}

/** Calls made with the token are recorded under the same client; its name is nowhere else once it is revoked. */
async function auditMinted({ store, by, now }: ManagementTools, record: MintedToken) {
  const { id, name, level, expiresAt } = record;
  const given = { name, level, expiresAt: isoTime(expiresAt) };
  const item = { event: 'token_minted', clientId: mintedSubject(id), by, arguments: given };
  await recordAudit(store, { ...item, outcome: 'done' }, now());
}
