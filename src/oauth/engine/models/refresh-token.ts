import type { Adapter } from 'oidc-provider';
import { refreshExpiry } from '../../../connections/grant-lifetime.ts';
import {
  classifyRefreshToken,
  type EnginePayload,
  type PresentedToken,
  rotate,
  withRefusal,
} from '../../../connections/grant-record.ts';
import { parseOpaqueToken } from '../../../connections/opaque-token.ts';
import type { Reason } from '../../../connections/reasons.ts';
import { KEEP } from '../../../store/store.ts';
import { requireBoundKey } from '../dpop.ts';
import { engineRequest, requireContext } from '../engine-request.ts';
import { invalidGrant, reasonIn } from '../errors.ts';
import type { GrantModelOptions } from './options.ts';
import { grantIdOf, requestEndReason, type RequestGrants } from './request-grants.ts';

/** The engine's RefreshToken model. */
export function refreshTokenModel(
  options: GrantModelOptions,
  records: RequestGrants,
): Partial<Adapter> {
  const { lifetimes, now, validateTokenRequest, recheckPerson, onRefreshed } = options;
  return {
    /** Plans the first generation, which `redeem` writes. `consume` makes later ones. */
    async upsert(_id, { jti: _jti, exp: _exp, ...payload }) {
      const ctx = requireContext();
      if (ctx.oidc.entities.RotatedRefreshToken) return;
      const { redemption } = engineRequest(ctx);
      if (!redemption) throw new Error('the engine saved a refresh token that was not expected');
      redemption.refresh = payload as EnginePayload & { iat: number };
    },
    async find(id) {
      const hit = await records.resolve(id, 'refresh token');
      const refresh = hit?.record.refresh;
      if (!hit || !refresh) return undefined;
      const ctx = requireContext();
      const isOwn = ctx.oidc.client?.clientId === refresh.payload.clientId;
      const replayed =
        classifyRefreshToken(refresh, Number(hit.name.part), now(), lifetimes.refreshGrace) ===
        'replay';
      if (isOwn && ctx.oidc.route === 'token') {
        await requireBoundKey(ctx, 'refresh token', refresh.payload.jkt);
        const validate = async () => {
          if (!replayed) await recheckPerson(refresh.payload);
          await validateTokenRequest(ctx, refresh.payload);
        };
        await validate().catch(async (error: unknown) => {
          await recordRefusal(options, records, hit.name.grantId, reasonIn(error));
          throw error;
        });
      }
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
  { now }: GrantModelOptions,
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
