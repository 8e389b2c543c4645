// Redeems codes (RFC 6749 section 4.1.3): one write, after the engine has made the response.
import type { KoaContextWithOIDC } from 'oidc-provider';
import {
  grantedLevel,
  type GrantRecord,
  narrowed,
  withRefusal,
} from '../../../connections/grant-record.ts';
import type { Level } from '../../../permission-levels.ts';
import { KEEP } from '../../../store/store.ts';
import { levelOfProof } from '../dpop.ts';
import { engineRequest, requireContext } from '../engine-request.ts';
import { invalidGrant, temporarilyUnavailable } from '../errors.ts';
import type { GrantModelOptions } from './options.ts';
import type { RequestGrants } from './request-grants.ts';

/** Validates the request, so that a refused one consumes nothing. */
export async function planRedemption(
  options: GrantModelOptions,
  records: RequestGrants,
  grantId: string,
): Promise<void> {
  const ctx = requireContext();
  const payload = (await records.load(grantId))?.value.code?.payload;
  if (!payload) throw invalidGrant('the authorization code is unknown');
  await options.validateTokenRequest(ctx, payload);
  engineRequest(ctx).redemption = { grantId };
}

/** Consumes the code of a successful response and stores the first refresh token, in one write and for exactly one caller. */
export async function redeem(
  options: GrantModelOptions,
  records: RequestGrants,
  ctx: KoaContextWithOIDC,
): Promise<void> {
  const request = engineRequest(ctx);
  if (!request.redemption || ctx.status !== 200) return;
  const { now, onExchanged, onLowered } = options;
  const { grantId, refresh } = request.redemption;
  let first = false;
  let approved: Level | undefined;
  const consume = (record: GrantRecord): GrantRecord | typeof KEEP => {
    approved = grantedLevel(record);
    const { code, ...rest } = limitToProof(options, ctx, record);
    first = code !== undefined && code.usedAt === undefined;
    if (!first || !code) return KEEP;
    // The person reduced the grant since the code was read. A retry gets the reduced scope.
    if (refresh && code.payload.scope !== refresh.scope)
      throw temporarilyUnavailable(new Error('the grant was changed concurrently'));
    return {
      ...rest,
      code: { ...code, usedAt: now() },
      ...(refresh ? { refresh: { payload: refresh, generation: 0, turns: [] } } : {}),
    };
  };
  const after = await records.change(grantId, consume, request);
  if (!after || !first) throw invalidGrant('the authorization code was already used');
  onExchanged(grantId, after.value);
  if (grantedLevel(after.value) !== approved) onLowered(grantId, after.value);
}

/**
 * Lowers the level of an approval to what a request without DPoP can have, so that pages and lists show what the client got, and why. The
 * client cannot raise it later.
 */
export function limitToProof(
  { settings, now }: Pick<GrantModelOptions, 'settings' | 'now'>,
  ctx: KoaContextWithOIDC,
  record: GrantRecord,
): GrantRecord {
  const granted = grantedLevel(record);
  const level = granted === undefined ? undefined : levelOfProof(settings, ctx, granted);
  if (level === undefined || level === granted) return record;
  const limited = narrowed(settings.levels, record, { level, stays: true }) ?? record;
  return withRefusal(limited, 'dpop_required', now()) ?? limited;
}
