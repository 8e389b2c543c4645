import { type ChangeItem, recordChange } from '../audit/recorded-change.ts';
import { HttpError, notFound } from '../http/errors.ts';
import { loadSigningKeys, publishedKeys } from '../keys/signing-keys.ts';
import {
  findMintedToken,
  listMintedTokens,
  mintedSubject,
  type MintedToken,
  type MintedTokenChange,
  type MintedTokenUpdate,
  mintToken,
  type NewMintedToken,
  newMintedTokenId,
  revokeMintedToken,
  updateMintedToken,
} from '../links/minted-tokens.ts';
import type { Store } from '../store/store.ts';
import { type Handlers, type ManagementContext, requireMatch } from './context.ts';
import { changedMembers, firstPage, isoTime, represent, withoutNulls } from './represent.ts';
import {
  changeableTokenSchema,
  newTokenSchema,
  type Token,
  tokenEtag,
  type tokenOperations,
  tokenSchema,
} from './resources/token.ts';
import { openedBy } from './opened-by.ts';
import { searchFor } from './search.ts';
import { requireUpstream } from './upstreams.ts';

export const tokenHandlers: Handlers<keyof typeof tokenOperations> = {
  async mintToken(management, { body }) {
    const { settings, services, by } = management;
    const { authUrl: issuer, resourceUrl } = settings;
    const wanted = { ...body, ...requireUpstream(settings, body.upstream), by };
    const now = services.now();
    const id = newMintedTokenId(now);
    const begun = itemOf(management, 'token_minted', { ...wanted, id });
    const minted = await recordChange(services, begun, {
      make: () => mintToken(services.store, wanted, { issuer, resourceUrl }, now, id),
      itemOf: ({ record }) => itemOf(management, 'token_minted', record),
    });
    return {
      ...represent(newTokenSchema, { ...minted.record, token: minted.token }),
      ...(await openedBy(management, 'token', minted.record)),
    };
  },

  async listTokens({ services: { store, now } }, { query: { limit, after = '', q, state } }) {
    const keys = await publishedKeyIds(store, now());
    const found = searchFor(q);
    const tokens = (await listMintedTokens(store, now())).filter(
      ({ id, name, lastFour, keyId }) =>
        id > after &&
        found([name, id, lastFour]) &&
        (state === undefined || (state === 'active') === keys.includes(keyId)),
    );
    const { items, next } = firstPage(tokens, limit);
    return { items: items.map((item) => resource(item, keys)), next };
  },

  async showToken({ services: { store, now } }, { id }) {
    const token = await requireToken(store, id);
    return resource(token, await publishedKeyIds(store, now()));
  },

  async updateToken(management, { id, body, ifMatch }) {
    const { services } = management;
    const { store, now } = services;
    const next = (before: MintedToken) => changedToken(before, body, ifMatch);
    const before = await requireToken(store, id);
    const begun = changedItem(management, { before, after: next(before) });
    const update = await recordChange(services, begun, {
      make: () => updateMintedToken(store, id, next, now()),
      itemOf: (made) =>
        made && made.after !== made.before ? changedItem(management, made) : undefined,
    });
    if (!update) throw unknownToken();
    return resource(update.after, await publishedKeyIds(store, now()));
  },

  async revokeToken(management, { id }) {
    const { services } = management;
    const { store, now } = services;
    const item = (token: MintedToken) => itemOf(management, 'token_revoked', token);
    const token = await recordChange(services, item(await requireToken(store, id)), {
      make: () => revokeMintedToken(store, id),
      itemOf: (revoked) => revoked && item(revoked),
    });
    if (!token) throw unknownToken();
    return resource(token, await publishedKeyIds(store, now()));
  },
};

/** Returns the same record if nothing changes. Throws HttpError 412 for another version, and 400 for a later expiry, because the token names its own. */
function changedToken(
  before: MintedToken,
  change: MintedTokenChange,
  ifMatch: string | undefined,
): MintedToken {
  const etag = (token: MintedToken) => tokenEtag(represent(changeableTokenSchema, token));
  requireMatch(ifMatch, etag(before));
  const expiresAt = Math.floor(change.expiresAt ?? before.expiresAt);
  if (expiresAt > before.expiresAt) {
    const latest = isoTime(before.expiresAt);
    throw new HttpError(400, 'invalid_request', `expiresAt: at most ${latest}, as it is now`);
  }
  const after = withoutNulls({ ...before, ...change, expiresAt });
  return etag(after) === etag(before) ? before : after;
}

async function requireToken(store: Store, id: string): Promise<MintedToken> {
  const token = await findMintedToken(store, id);
  if (!token) throw unknownToken();
  return token;
}

function unknownToken(): HttpError {
  return notFound('there is no minted token with this id');
}

/** Returns the tokens that `by` minted and whose signing key is published, the newest first. */
export async function listTokensMintedBy(
  { services: { store, now } }: ManagementContext,
  by: string,
): Promise<Token[]> {
  const keys = await publishedKeyIds(store, now());
  const tokens = (await listMintedTokens(store, now())).filter(
    (token) => token.by === by && keys.includes(token.keyId),
  );
  return tokens.toReversed().map((token) => resource(token, keys));
}

function resource(token: MintedToken, publishedKeys: readonly string[]): Token {
  const keyReplaced = publishedKeys.includes(token.keyId) ? undefined : true;
  return represent(tokenSchema, { ...token, keyReplaced });
}

async function publishedKeyIds(store: Store, now: number): Promise<string[]> {
  const keys = publishedKeys(await loadSigningKeys(store, now), now);
  return keys.map(({ jwk }) => jwk.kid);
}

/** Uses the same client id as calls made with the token. Only these items hold the name after the token is revoked. */
function itemOf(
  { by }: ManagementContext,
  event: 'token_minted' | 'token_revoked',
  { id, name, level, upstream, tools, calls, expiresAt }: NewMintedToken & { id: string },
): ChangeItem {
  const properties = { name, level, upstream, tools, calls, expiresAt: isoTime(expiresAt) };
  return { event, clientId: mintedSubject(id), by, arguments: properties };
}

function changedItem({ by }: ManagementContext, { before, after }: MintedTokenUpdate): ChangeItem {
  const changed = changedMembers(
    represent(changeableTokenSchema, before),
    represent(changeableTokenSchema, after),
  );
  const details = { name: after.name, ...changed };
  return { event: 'token_changed', clientId: mintedSubject(after.id), by, arguments: details };
}
