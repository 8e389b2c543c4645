// AuthorizationCode and RefreshToken of the engine, kept in the record of their grant (RFC 6749 sections 4.1.2 and 6).
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
import { type LastSteps, requireBoundKey } from './dpop.ts';
import { invalidGrant, reasonIn, temporarilyUnavailable } from './errors.ts';
import {
  requestEndReason,
  grantIdOf,
  type RecordOptions,
  type RequestRecords,
  requireRequest,
} from './request-records.ts';

export type TokenModelOptions = RecordOptions & {
  /** Settles `resource` and `scope` of a token request against what was granted, and throws before anything is used up. */
  validateTokenRequest: (ctx: KoaContextWithOIDC, granted: EnginePayload) => Promise<void>;
  /** Whether a refresh token is going to follow the code that is being exchanged. */
  refreshTokenFollows: (ctx: KoaContextWithOIDC, code: EnginePayload) => boolean;
  /** Called once per code that was exchanged, which does not wait for what follows. */
  onExchanged: (grantId: string, record: GrantRecord) => void;
  onRefreshed: (grantId: string, record: GrantRecord) => Promise<void>;
};

export function codeModel(
  options: TokenModelOptions,
  records: RequestRecords,
  lastSteps: LastSteps,
): Partial<Adapter> {
  const { lifetimes, now, validateTokenRequest, refreshTokenFollows } = options;
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
      // Within a moment of its use this is the same request sent twice: `consume` refuses it and nothing else happens.
      const replayed = code.usedAt !== undefined && now() - code.usedAt > lifetimes.codeGrace;
      const moment = Math.floor(now());
      // A replay is one however late it comes: the engine would call it expired, and end nothing.
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
      // A refresh token uses the code up when it is saved, the last step that can fail, so a failed exchange can be repeated.
      if (refreshTokenFollows(ctx, payload)) return;
      const use = () => useCode(options, records, grantId, (record) => record);
      // Whether a proof is new is asked after this, and may fail.
      if (ctx.req.headers.dpop) lastSteps.set(ctx, use);
      else await use();
    },
  };
}

/** The person may have taken something back since the engine read the grant. */
function withinGrant<Issued extends EnginePayload>(
  { grant }: GrantRecord,
  payload: Issued,
): Issued {
  const granted = (grant.openid?.scope ?? '').split(' ');
  const scopes = String(payload.scope ?? '').split(' ');
  return { ...payload, scope: scopes.filter((scope) => granted.includes(scope)).join(' ') };
}

/** Uses the code and makes `next` of the record, in one write, for exactly one caller. */
async function useCode(
  { now, onExchanged }: TokenModelOptions,
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
  onExchanged(grantId, after.value);
}

export function refreshTokenModel(
  options: TokenModelOptions,
  records: RequestRecords,
): Partial<Adapter> {
  const { lifetimes, now, validateTokenRequest, onRefreshed } = options;
  return {
    /** Only the first generation is written; later ones are made by `consume`. */
    async upsert(_id, { jti: _jti, exp: _exp, ...payload }) {
      if (requireRequest().oidc.entities.RotatedRefreshToken) return;
      const refresh = {
        payload: payload as EnginePayload & { iat: number },
        generation: 0,
        turns: [],
      };
      await useCode(options, records, String(payload.grantId), (record) => {
        // The person took something back since the code was read; a repeated request gets what is left.
        if (record.code?.payload.scope !== payload.scope)
          throw temporarilyUnavailable(new Error('what was granted has changed meanwhile'));
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
    /** Rotation the generation before the engine names the successor, so the name always fits what is stored. */
    async consume(id) {
      const grantId = grantIdOf(id);
      const presented = Number(parseOpaqueToken(id)?.part);
      let verdict: PresentedToken | undefined;
      const after = await records.change(grantId, (record) => {
        if (!record.refresh) return KEEP;
        const moment = now();
        verdict = classifyRefreshToken(record.refresh, presented, moment, lifetimes.refreshGrace);
        if (verdict === 'repeat' || verdict === 'replay') return KEEP;
        return rotate(record, record.refresh, presented, moment, lifetimes.refreshGrace);
      });
      // Another request made a replay of it between `find` and here.
      if (after && isReplay(verdict)) await records.end(grantId, 'refresh_replay');
      // Without a verdict, the person does not let the app stay connected any more.
      if (!after || verdict === undefined || isReplay(verdict))
        throw invalidGrant('the refresh token is no longer good; connect again');
      await onRefreshed(grantId, after.value);
    },
    async destroy(id) {
      await records.end(grantIdOf(id), requestEndReason());
    },
  };
}

/**
 * Kept with the grant, so that there is an answer to why when what stood in the way is over. What the client itself did wrong is in the log only:
 * bad input changes nothing. The refusal does not depend on the write.
 */
async function recordRefusal(
  { now }: TokenModelOptions,
  records: RequestRecords,
  grantId: string,
  reason: Reason | undefined,
): Promise<void> {
  if (!reason) return;
  const noted = records.change(grantId, (record) => withRefusal(record, reason, now()) ?? KEEP);
  await noted.catch(() => undefined);
}

function isReplay(verdict: PresentedToken | undefined): boolean {
  return verdict === 'replay';
}
