// Minted tokens over the management API: minted, listed and revoked; the token itself is in one answer only.
import type { Router } from '@koa/router';
import { recordAudit } from '../audit/audit.ts';
import { readJson } from '../http/body.ts';
import { notFound } from '../http/errors.ts';
import { openSigningKeys, publishedKeys } from '../keys/signing-keys.ts';
import {
  listMintedTokens,
  mintedSubject,
  type MintedToken,
  mintToken,
  revokeMintedToken,
} from '../minted-tokens/minted-tokens.ts';
import type { Store } from '../store/store.ts';
import { firstPage, isoTime, mintedTokenDocument, type NewTokenDocument } from './documents.ts';
import { parseInput, parseNewToken, tokensQuery } from './input.ts';

export type MintedTokenOptions = {
  store: Store;
  /** The issuer. */
  authUrl: string;
  resourceUrl: string;
  /** Seconds since the epoch. */
  now: () => number;
};

export function mintedTokenRoutes(router: Router, options: MintedTokenOptions): void {
  const { store, authUrl, resourceUrl, now } = options;

  router.post('/tokens', async function mint(ctx) {
    const body = await readJson(ctx);
    const moment = now();
    const wanted = parseNewToken(body, moment);
    const minting = { issuer: authUrl, resourceUrl };
    const { record, token } = await mintToken(store, wanted, minting, moment);
    await auditMinted(store, record, moment);
    ctx.status = 201;
    ctx.body = newTokenDocument(record, token);
  });

  router.get('/tokens', async function list(ctx) {
    const { limit, after = '' } = parseInput(tokensQuery, { ...ctx.query });
    const tokens = (await listMintedTokens(store, now())).filter(({ id }) => id > after);
    const { items, next } = firstPage(tokens, limit);
    const keys = await publishedKeyIds(store, now());
    ctx.body = { items: items.map((item) => mintedTokenDocument(item, keys)), next };
  });

  router.delete('/tokens/:id', async function revoke(ctx) {
    const record = await revokeMintedToken(store, ctx.params.id ?? '');
    if (!record) throw notFound('there is no minted token with this id');
    await auditRevoked(store, record, now());
    ctx.body = mintedTokenDocument(record, await publishedKeyIds(store, now()));
  });
}

function newTokenDocument({ id, name, level, expiresAt }: MintedToken, token: string) {
  return { id, name, level, token, expiresAt: isoTime(expiresAt) } satisfies NewTokenDocument;
}

async function publishedKeyIds(store: Store, now: number): Promise<string[]> {
  const keys = publishedKeys(await openSigningKeys(store, now), now);
  return keys.map(({ jwk }) => jwk.kid);
}

/** Calls made with the token are recorded under the same client; its name is nowhere else once it is revoked. */
async function auditMinted(store: Store, record: MintedToken, now: number): Promise<void> {
  const { id, name, level, expiresAt } = record;
  const given = { name, level, expiresAt: isoTime(expiresAt) };
  const item = { event: 'token_minted', clientId: mintedSubject(id), arguments: given };
  await recordAudit(store, { ...item, outcome: 'done' }, now);
}

async function auditRevoked(store: Store, { id }: MintedToken, now: number): Promise<void> {
  const item = { event: 'token_revoked', clientId: mintedSubject(id) };
  await recordAudit(store, { ...item, outcome: 'done' }, now);
}
