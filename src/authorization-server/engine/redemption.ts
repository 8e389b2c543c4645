// Redeems codes and refresh tokens, which are part of the grant record (RFC 6749 sections 4.1.3 and 6).
import { type Adapter, errors, type KoaContextWithOIDC } from 'oidc-provider';
import { refreshExpiry } from '../../grants/grant-lifetime.ts';
import {
  type EnginePayload,
  type GrantRecord,
  classifyRefreshToken,
  rotate,
  type PresentedToken,
  withRefusal,
} from '../../grants/grant-record.ts';
import type { Reason } from '../../grants/reasons.ts';
import { parseOpaqueToken } from '../../grants/opaque-token.ts';
import { KEEP } from '../../store/store.ts';
import { requireBoundKey } from './dpop.ts';
import { invalidGrant, reasonIn, temporarilyUnavailable } from './errors.ts';
import {
  requestEndReason,
  grantIdOf,
  type RequestGrantOptions,
  type RequestGrants,
  type Redemption,
  requestState,
  requireRequest,
} from './request-grant.ts';

export type RedemptionOptions = RequestGrantOptions & {
  /** Validates `resource` and `scope` of a token request against the grant. Rejects before anything is consumed. */
  validateTokenRequest: (ctx: KoaContextWithOIDC, granted: EnginePayload) => Promise<void>;
  /** Whether the exchange of this code issues a refresh token. */
  refreshTokenFollows: (ctx: KoaContextWithOIDC, code: EnginePayload) => boolean;
  /** Called once per exchanged code. Must not block. */
  onExchanged: (grantId: string, record: GrantRecord) => void;
  onRefreshed: (grantId: string, record: GrantRecord) => Promise<void>;
};

/**
 * The engine's AuthorizationCode model. `consume` starts the redemption. The last hook that can fail writes it, so that a client may retry
 * a failed exchange.
 */
export function codeModel(options: RedemptionOptions, records: RequestGrants): Partial<Adapter> {
  const { lifetimes, now, validateTokenRequest } = options;
  return {
    async upsert(_id, { jti: _jti, ...payload }) {
      const issued = payload as EnginePayload & { exp: number };
      const after = await records.change(String(payload.grantId), (record) =>
        record.code ? KEEP : { ...record, code: { payload: withinGrant(record, issued) } },
      );
      if (!after) throw new errors.AccessDenied('the connection was ended meanwhile');
    },
    async find(id) {
      const code = (await records.resolve(id, 'code'))?.record.code;
      if (!code) return undefined;
      await requireBoundKey(requireRequest(), 'authorization code', code.payload.dpopJkt);
      // Within the grace this is the same request sent twice: `consume` rejects it and nothing else happens.
      const replayed = code.usedAt !== undefined && now() - code.usedAt > lifetimes.codeGrace;
      const moment = Math.floor(now());
      // An expired code that is replayed must end the grant, so it must not look expired to the engine.
      return {
        ...code.payload,
        jti: id,
        ...(replayed ? { consumed: moment, exp: moment + 1 } : {}),
      };
    },
    async consume(id) {
      const ctx = requireRequest();
      const grantId = grantIdOf(id);
      const payload = (await records.load(grantId))?.value.code?.payload;
      if (!payload) throw invalidGrant('the authorization code is unknown');
      await validateTokenRequest(ctx, payload);
      const lastHook = lastHookOf(options, ctx, payload);
      requestState(ctx).redemption = { grantId, lastHook };
      await completeRedemption(options, records, 'code consumed');
    },
  };
}

/** Limits the code's scope to the grant, which the person may have reduced since the engine read it. */
function withinGrant<Issued extends EnginePayload>(
  { grant }: GrantRecord,
  payload: Issued,
): Issued {
  const granted = (grant.openid?.scope ?? '').split(' ');
  const scopes = String(payload.scope ?? '').split(' ');
  return { ...payload, scope: scopes.filter((scope) => granted.includes(scope)).join(' ') };
}

function lastHookOf(
  { refreshTokenFollows }: RedemptionOptions,
  ctx: KoaContextWithOIDC,
  code: EnginePayload,
): Redemption['lastHook'] {
  if (refreshTokenFollows(ctx, code)) return 'refresh token saved';
  // The engine checks a proof for replay after it consumed the code.
  return ctx.req.headers.dpop ? 'proof consumed' : 'code consumed';
}

/**
 * Consumes the code, together with `next`, in one write and for exactly one caller, if `hook` is the last one of the request. Called by every
 * hook that can be the last.
 */
export async function completeRedemption(
  { now, onExchanged }: RedemptionOptions,
  records: RequestGrants,
  hook: Redemption['lastHook'],
  next: (record: GrantRecord) => GrantRecord = (record) => record,
): Promise<void> {
  const { redemption } = requestState(requireRequest());
  if (redemption?.lastHook !== hook) return;
  const { grantId } = redemption;
  let first = false;
  const after = await records.change(grantId, (record) => {
    first = record.code !== undefined && record.code.usedAt === undefined;
    return first && record.code
      ? next({ ...record, code: { ...record.code, usedAt: now() } })
      : KEEP;
  });
  if (!after || !first) throw invalidGrant('the authorization code was already used');
  onExchanged(grantId, after.value);
}

/** The engine's RefreshToken model. */
export function refreshTokenModel(
  options: RedemptionOptions,
  records: RequestGrants,
): Partial<Adapter> {
  const { lifetimes, now, validateTokenRequest, onRefreshed } = options;
  return {
    /** Writes the first generation only. `consume` makes later ones. */
    async upsert(_id, { jti: _jti, exp: _exp, ...payload }) {
      if (requireRequest().oidc.entities.RotatedRefreshToken) return;
      const refresh = {
        payload: payload as EnginePayload & { iat: number },
        generation: 0,
        turns: [],
      };
      if (requestState(requireRequest()).redemption?.lastHook !== 'refresh token saved')
        throw new Error('the engine saved a refresh token that was not expected');
      await completeRedemption(options, records, 'refresh token saved', (record) => {
        // The person reduced the grant since the code was read. A retry gets the reduced scope.
        if (record.code?.payload.scope !== payload.scope)
          throw temporarilyUnavailable(new Error('the grant has changed meanwhile'));
        return { ...record, refresh };
      });
    },
    async find(id) {
      const hit = await records.resolve(id, 'refresh token');
      const refresh = hit?.record.refresh;
      if (!hit || !refresh) return undefined;
      const ctx = requireRequest();
      const isOwn = ctx.oidc.client?.clientId === refresh.payload.clientId;
      if (isOwn && ctx.oidc.route === 'token') {
        await requireBoundKey(ctx, 'refresh token', refresh.payload.jkt);
        await validateTokenRequest(ctx, refresh.payload).catch(async (error: unknown) => {
          await recordRefusal(options, records, hit.name.grantId, reasonIn(error));
          throw error;
        });
      }
      const replayed =
        classifyRefreshToken(refresh, Number(hit.name.part), now(), lifetimes.refreshGrace) ===
        'replay';
      return {
        ...refresh.payload,
        jti: id,
        rotations: refresh.generation,
        exp: refreshExpiry(hit.record, lifetimes.refreshIdle),
        ...(replayed ? { consumed: Math.floor(now()) } : {}),
      };
    },
    /** Rotates before the engine generates the successor, so that its value always matches the record. */
    async consume(id) {
      const grantId = grantIdOf(id);
      const presented = Number(parseOpaqueToken(id)?.part);
      let token: PresentedToken | undefined;
      const after = await records.change(grantId, (record) => {
        if (!record.refresh) return KEEP;
        const moment = now();
        token = classifyRefreshToken(record.refresh, presented, moment, lifetimes.refreshGrace);
        if (token === 'repeat' || token === 'replay') return KEEP;
        return rotate(record, record.refresh, presented, moment, lifetimes.refreshGrace);
      });
      // A concurrent request rotated it between `find` and here.
      if (after && isReplay(token)) await records.end(grantId, 'refresh_replay');
      // Undefined if the person has removed the refresh token from the grant.
      if (!after || token === undefined || isReplay(token))
        throw invalidGrant('the refresh token is no longer valid; connect again');
      await onRefreshed(grantId, after.value);
    },
    async destroy(id) {
      await records.end(grantIdOf(id), requestEndReason());
    },
  };
}

/**
 * Keeps the reason in the grant, so that it is known later. Errors of the client itself have no reason, so that bad input causes no write. Store
 * errors are ignored.
 */
async function recordRefusal(
  { now }: RedemptionOptions,
  records: RequestGrants,
  grantId: string,
  reason: Reason | undefined,
): Promise<void> {
  if (!reason) return;
  const noted = records.change(grantId, (record) => withRefusal(record, reason, now()) ?? KEEP);
  await noted.catch(() => undefined);
}

/** A function, because TypeScript takes a variable that a callback assigns for unassigned. */
function isReplay(token: PresentedToken | undefined): boolean {
  return token === 'replay';
}
