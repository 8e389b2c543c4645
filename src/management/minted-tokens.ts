import { recordAudit } from '../audit/audit.ts';
import { notFound } from '../http/errors.ts';
import { loadSigningKeys, publishedKeys } from '../keys/signing-keys.ts';
import {
  listMintedTokens,
  mintedSubject,
  type MintedToken,
  mintToken as mint,
  type NewMintedToken,
  revokeMintedToken,
} from '../minted-tokens/minted-tokens.ts';
import type { Store } from '../store/store.ts';
import type { TokensQuery } from './api/requests.ts';
import type { MintedTokenResource, NewTokenResource, Page } from './api/resources.ts';
import { firstPage, isoTime, mintedTokenResource } from './representations.ts';
import type { ManagementContext } from './context.ts';
import { searchFor } from './search.ts';
import { requireUpstream } from './upstreams.ts';

export async function mintToken(
  management: ManagementContext,
  newToken: NewMintedToken,
): Promise<NewTokenResource> {
  const { authUrl, resourceUrl } = management.settings;
  const { by } = management;
  const wanted = { ...newToken, ...requireUpstream(management.settings, newToken.upstream), by };
  const { store, now } = management.services;
  const minted = await mint(store, wanted, { issuer: authUrl, resourceUrl }, now());
  await record(management, 'token_minted', minted.record);
  const {
    token,
    record: { id, name, level, upstream, expiresAt },
  } = minted;
  return { id, name, level, upstream, token, expiresAt: isoTime(expiresAt) };
}

export async function listTokens(
  { services: { store, now } }: ManagementContext,
  { limit, after = '', q, state }: TokensQuery,
): Promise<Page<MintedTokenResource>> {
  const keys = await publishedKeyIds(store, now());
  const found = searchFor(q);
  const tokens = (await listMintedTokens(store, now())).filter(
    ({ id, name, lastFour, keyId }) =>
      id > after &&
      found([name, id, lastFour]) &&
      (state === undefined || (state === 'active') === keys.includes(keyId)),
  );
  const { items, next } = firstPage(tokens, limit);
  return { items: items.map((item) => mintedTokenResource(item, keys)), next };
}

/** Returns the tokens that `by` minted and whose signing key is published, the newest first. */
export async function listTokensMintedBy(
  { services: { store, now } }: ManagementContext,
  by: string,
): Promise<MintedTokenResource[]> {
  const keys = await publishedKeyIds(store, now());
  const tokens = (await listMintedTokens(store, now())).filter(
    (token) => token.by === by && keys.includes(token.keyId),
  );
  return tokens.toReversed().map((token) => mintedTokenResource(token, keys));
}

export async function revokeToken(
  management: ManagementContext,
  id: string,
): Promise<MintedTokenResource> {
  const { store, now } = management.services;
  const token = await revokeMintedToken(store, id);
  if (!token) throw notFound('there is no minted token with this id');
  await record(management, 'token_revoked', token);
  return mintedTokenResource(token, await publishedKeyIds(store, now()));
}

async function publishedKeyIds(store: Store, now: number): Promise<string[]> {
  const keys = publishedKeys(await loadSigningKeys(store, now), now);
  return keys.map(({ jwk }) => jwk.kid);
}

/** Uses the same client id as calls made with the token. Only these items hold the name after the token is revoked. */
async function record(
  { services, by }: ManagementContext,
  event: 'token_minted' | 'token_revoked',
  { id, name, level, upstream, expiresAt }: MintedToken,
) {
  const properties = { name, level, upstream, expiresAt: isoTime(expiresAt) };
  const item = {
    event,
    clientId: mintedSubject(id),
    by,
    arguments: properties,
  };
  await recordAudit(services, { ...item, outcome: 'done' });
}
