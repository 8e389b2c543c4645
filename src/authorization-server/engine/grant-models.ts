// Grant, AuthorizationCode, RefreshToken and AccessToken of the engine, all kept in the one record of the grant.
import type { KeyObject } from 'node:crypto';
import { Provider, type Adapter, errors, type KoaContextWithOIDC } from 'oidc-provider';
import {
  type EnginePayload,
  type GrantRecord,
  judge,
  type Lifetimes,
  refreshExpiry,
  revokeAccessToken,
  turn,
  type Verdict,
} from '../../grants/grant-record.ts';
import {
  announceGrant,
  endGrant,
  findGrant,
  type FoundGrant,
  updateGrant,
} from '../../grants/grants.ts';
import { createTokenName, isOurs, type Part, parseTokenName } from '../../grants/token-name.ts';
import { KEEP, type Store } from '../../store/store.ts';
import { presentedJwt } from './extensions.ts';
import { invalidGrant } from './refusals.ts';

export type GrantModelOptions = {
  store: Store;
  /** `[0]` names codes and refresh tokens; all recognise. */
  tokenKeys: readonly KeyObject[];
  lifetimes: Lifetimes;
  now: () => number;
  /** Settles `resource` and `scope` of a token request against what was granted, and throws before anything is used up. */
  settleTokenRequest: (ctx: KoaContextWithOIDC, granted: EnginePayload) => Promise<void>;
  /** Whether a refresh token is going to follow the code that is being exchanged. */
  refreshTokenFollows: (ctx: KoaContextWithOIDC, code: EnginePayload) => boolean;
  /** Called once per grant that ended, with why. */
  onEnded: (grantId: string, record: GrantRecord, reason: string) => Promise<void>;
  /** Called once per code that was exchanged. */
  onExchanged: (grantId: string, record: GrantRecord) => Promise<void>;
  onRefreshed: (grantId: string, record: GrantRecord) => Promise<void>;
  /** The claims of one of our access tokens that has not expired. */
  verifyAccessToken: (jwt: string) => Promise<AccessTokenClaims | undefined>;
};

/** Named as the engine names them. */
export type AccessTokenClaims = {
  jti: string;
  iat: number;
  exp: number;
  accountId: string;
  clientId: string;
  grantId: string;
  aud: string;
  scope: string;
};

export type GrantModels = {
  models: Record<string, Partial<Adapter>>;
  /** The value of the code or refresh token that is about to be saved; the grant was read earlier in the same request. */
  nameToken: (kind: 'AuthorizationCode' | 'RefreshToken', grantId: string) => string;
};

export function grantModels(options: GrantModelOptions): GrantModels {
  const records = requestRecords(options);
  return {
    models: {
      Grant: grantModel(records),
      AuthorizationCode: codeModel(options, records),
      RefreshToken: refreshTokenModel(options, records),
      AccessToken: accessTokenModel(options, records),
    },
    nameToken(kind, grantId) {
      const record = records.seen(grantId)?.value;
      if (!record) throw new Error('a token was named before its grant was read');
      const part: Part = kind === 'AuthorizationCode' ? 'code' : (record.refresh?.generation ?? 0);
      return createTokenName(options.tokenKeys, grantId, part, record.seed);
    },
  };
}

type RequestRecords = ReturnType<typeof requestRecords>;

/** One request reads the record once: the engine finds the token, then its grant, then changes it. */
function requestRecords({ store, tokenKeys, lifetimes, now, onEnded }: GrantModelOptions) {
  const memo = new WeakMap<object, { id: string; found: FoundGrant | undefined }>();
  const request = (): KoaContextWithOIDC | undefined => Provider.ctx;

  const remember = (id: string, found: FoundGrant | undefined) => {
    const ctx = request();
    if (ctx) memo.set(ctx, { id, found });
    return found;
  };
  const seen = (id: string) => {
    const ctx = request();
    const remembered = ctx && memo.get(ctx);
    return remembered?.id === id ? remembered.found : undefined;
  };
  const load = async (id: string) => seen(id) ?? remember(id, await findGrant(store, id));

  return {
    seen,
    load,
    async change(id: string, next: (record: GrantRecord) => GrantRecord | typeof KEEP) {
      const seenBefore = seen(id);
      const options = { lifetimes, now: now(), ...(seenBefore ? { seen: seenBefore } : {}) };
      return remember(id, await updateGrant(store, id, next, options));
    },
    async end(id: string, reason: string) {
      const ended = await endGrant(store, id, reason);
      remember(id, undefined);
      if (ended) await onEnded(id, ended, reason);
    },
    /** The record a presented value belongs to, when we made that value. */
    async resolve(value: string, kind: 'code' | 'refresh token') {
      const name = parseTokenName(value);
      if (!name || (name.part === 'code') !== (kind === 'code')) return undefined;
      const found = await load(name.grantId);
      return found && isOurs(tokenKeys, name, found.value.seed)
        ? { name, record: found.value }
        : undefined;
    },
  };
}

/** The grant is written by the consent step with all that belongs to it, so the engine never saves one. */
function grantModel({ load, end }: RequestRecords): Partial<Adapter> {
  return {
    async find(id) {
      return (await load(id))?.value.grant;
    },
    async destroy(id) {
      await end(id, endReason());
    },
  };
}

function endReason(): string {
  const { route, params } = Provider.ctx?.oidc ?? {};
  if (route === 'revocation') return 'revoked_by_client';
  return params?.grant_type === 'authorization_code' ? 'code_replay' : 'refresh_replay';
}

function codeModel(options: GrantModelOptions, records: RequestRecords): Partial<Adapter> {
  const { lifetimes, now, settleTokenRequest, refreshTokenFollows } = options;
  return {
    async upsert(_id, { jti: _jti, ...payload }) {
      const code = { payload: payload as EnginePayload & { exp: number } };
      const after = await records.change(String(payload.grantId), (record) =>
        record.code ? KEEP : { ...record, code },
      );
      if (!after) throw new errors.AccessDenied('the connection was ended meanwhile');
    },
    async find(id) {
      const code = (await records.resolve(id, 'code'))?.record.code;
      if (!code) return undefined;
      // Within a moment of its use this is the same request sent twice: `consume` refuses it and nothing else happens.
      const replayed = code.usedAt !== undefined && now() - code.usedAt > lifetimes.codeGrace;
      return {
        ...code.payload,
        jti: id,
        ...(replayed ? { consumed: Math.floor(code.usedAt ?? 0) } : {}),
      };
    },
    async consume(id) {
      const ctx = requireRequest();
      const grantId = grantIdOf(id);
      const payload = (await records.load(grantId))?.value.code?.payload;
      if (!payload) throw invalidGrant('the authorization code is unknown');
      await settleTokenRequest(ctx, payload);
      // A refresh token uses the code up when it is saved, the last step that can fail, so a failed exchange can be repeated.
      if (!refreshTokenFollows(ctx, payload))
        await useCode(options, records, grantId, (record) => record);
    },
  };
}

/** Uses the code and makes `next` of the record, in one write, for exactly one caller. */
async function useCode(
  { now, onExchanged }: GrantModelOptions,
  records: RequestRecords,
  grantId: string,
  next: (record: GrantRecord) => GrantRecord,
): Promise<void> {
  let first = false;
  const after = await records.change(grantId, (record) => {
    first = record.code !== undefined && record.code.usedAt === undefined;
    return first && record.code
      ? next({ ...record, code: { ...record.code, usedAt: now() } })
      : KEEP;
  });
  if (!after || !first) throw invalidGrant('the authorization code was used already');
  await onExchanged(grantId, after.value);
}

function refreshTokenModel(options: GrantModelOptions, records: RequestRecords): Partial<Adapter> {
  const { lifetimes, now, settleTokenRequest, onRefreshed } = options;
  return {
    /** Only the first generation is written; later ones are made by `consume`. */
    async upsert(_id, { jti: _jti, exp: _exp, ...payload }) {
      if (requireRequest().oidc.entities.RotatedRefreshToken) return;
      const refresh = {
        payload: payload as EnginePayload & { iat: number },
        generation: 0,
        turns: [],
      };
      await useCode(options, records, String(payload.grantId), (record) => ({
        ...record,
        refresh,
      }));
    },
    async find(id) {
      const hit = await records.resolve(id, 'refresh token');
      const refresh = hit?.record.refresh;
      if (!hit || !refresh) return undefined;
      const ctx = requireRequest();
      const isOwn = ctx.oidc.client?.clientId === refresh.payload.clientId;
      if (isOwn && ctx.oidc.route === 'token') await settleTokenRequest(ctx, refresh.payload);
      const replayed =
        judge(refresh, Number(hit.name.part), now(), lifetimes.refreshGrace) === 'replay';
      return {
        ...refresh.payload,
        jti: id,
        rotations: refresh.generation,
        exp: refreshExpiry(hit.record, lifetimes.refreshIdle),
        ...(replayed ? { consumed: Math.floor(now()) } : {}),
      };
    },
    /** Turns the generation before the engine names the successor, so the name always fits what is stored. */
    async consume(id) {
      const grantId = grantIdOf(id);
      const presented = Number(parseTokenName(id)?.part);
      let verdict: Verdict = 'replay';
      const after = await records.change(grantId, (record) => {
        if (!record.refresh) return KEEP;
        const moment = now();
        verdict = judge(record.refresh, presented, moment, lifetimes.refreshGrace);
        if (verdict === 'repeat' || verdict === 'replay') return KEEP;
        return turn(record, record.refresh, presented, moment, lifetimes.refreshGrace);
      });
      // Another request made a replay of it between `find` and here.
      if (after && isReplay(verdict)) await records.end(grantId, 'refresh_replay');
      if (!after || isReplay(verdict))
        throw invalidGrant('the refresh token is no longer good; connect again');
      await onRefreshed(grantId, after.value);
    },
    async destroy(id) {
      await records.end(grantIdOf(id), endReason());
    },
  };
}

/** Access tokens are JWTs and never stored; one that is revoked before it expires is remembered in its grant (RFC 7009). */
function accessTokenModel(options: GrantModelOptions, records: RequestRecords): Partial<Adapter> {
  const { store, now, verifyAccessToken } = options;
  return {
    async find(value) {
      const jwt = presentedJwt(value);
      const claims = jwt === undefined ? undefined : await verifyAccessToken(jwt);
      const record = claims && (await records.load(claims.grantId))?.value;
      if (!record || record.revoked?.[claims.jti] !== undefined) return undefined;
      return { kind: 'AccessToken', format: 'opaque', ...claims, extra: {} };
    },
    async destroy(jti) {
      const token = requireRequest().oidc.entities.AccessToken;
      const grantId = token?.grantId;
      if (!token || !grantId) return;
      let tooMany = false;
      await records.change(grantId, (record) => {
        const after = revokeAccessToken(record, jti, token.exp ?? now(), now());
        tooMany = after === undefined;
        return after ?? KEEP;
      });
      if (tooMany) await records.end(grantId, 'many_tokens_revoked');
      else await announceGrant(store, grantId);
    },
  };
}

function isReplay(verdict: Verdict): boolean {
  return verdict === 'replay';
}

function grantIdOf(value: string): string {
  const name = parseTokenName(value);
  if (!name) throw invalidGrant('not one of our tokens');
  return name.grantId;
}

function requireRequest(): KoaContextWithOIDC {
  const ctx = Provider.ctx;
  if (!ctx) throw new Error('the engine used a token outside a request');
  return ctx;
}
