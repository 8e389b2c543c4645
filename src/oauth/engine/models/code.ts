import { type Adapter, errors } from 'oidc-provider';
import {
  type EnginePayload,
  grantedLevel,
  type GrantRecord,
} from '../../../connections/grant-record.ts';
import { KEEP } from '../../../store/store.ts';
import { requireBoundKey } from '../dpop.ts';
import { currentRequest, finishBeforeResponse, requireContext } from '../engine-request.ts';
import { comparedRedirectUri } from '../extensions.ts';
import { endApproval, findAppEnd } from './ended-app.ts';
import type { GrantModelOptions } from './options.ts';
import { limitToProof, planRedemption } from './redemption.ts';
import { grantIdOf, type RequestGrants } from './request-grants.ts';

/** The engine's AuthorizationCode model. `consume` only plans the write of `redeem`, so that a client may retry a failed exchange. */
export function codeModel(options: GrantModelOptions, records: RequestGrants): Partial<Adapter> {
  const { lifetimes, now } = options;
  return {
    async upsert(_id, { jti: _jti, ...payload }) {
      const { recorded } = await attachCode(
        options,
        records,
        payload as EnginePayload & { exp: number },
      );
      await finishBeforeResponse(recorded);
    },
    async find(id) {
      const ctx = requireContext();
      const hit = await records.resolve(id, 'code');
      const code = hit && limitToProof(options, ctx, hit.record).code;
      if (!code) return undefined;
      await requireBoundKey(ctx, 'authorization code', code.payload.dpopJkt);
      const { params } = ctx.oidc;
      if (params)
        params.redirect_uri = comparedRedirectUri(params.redirect_uri, code.payload.redirectUri);
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
      await planRedemption(options, records, grantIdOf(id));
    },
  };
}

/**
 * Adds the code to the grant of an approval, and notes the approval for the page that shows the decision. The code must not get out before
 * `recorded` resolves. Rejects with `access_denied` if the grant has ended, and with 403 if an administrator has ended the app.
 */
export async function attachCode(
  options: GrantModelOptions,
  records: RequestGrants,
  issued: EnginePayload & { exp: number },
): Promise<{ recorded: Promise<void> | undefined }> {
  const grantId = String(issued.grantId);
  const approved = (await records.load(grantId))?.value;
  if (!approved) throw new errors.AccessDenied('the connection was ended');
  const ctx = requireContext();
  let isFirst = false;
  const [after, end] = await Promise.all([
    records.change(grantId, (record) => {
      isFirst = !record.code;
      return isFirst ? { ...record, code: { payload: withinGrant(record, issued) } } : KEEP;
    }),
    findAppEnd(options, ctx, approved),
  ]);
  if (end) throw await endApproval(options, records, ctx, grantId, approved, end);
  if (!after) throw new errors.AccessDenied('the connection was ended');
  const recorded = isFirst ? options.onApproved(grantId, after.value) : undefined;
  const request = currentRequest();
  if (request) {
    const { client, connector } = after.value;
    const level = grantedLevel(after.value);
    request.attempt = { ...request.attempt, step: 'code', grantId, connector };
    request.approval = { level, client: client.name, connector };
  }
  return { recorded };
}

/** Limits the code's scope to the grant, which the person may have reduced since the engine read it. */
export function withinGrant<Issued extends EnginePayload>(
  { grant }: GrantRecord,
  payload: Issued,
): Issued {
  const granted = (grant.openid?.scope ?? '').split(' ');
  const scopes = String(payload.scope ?? '').split(' ');
  return { ...payload, scope: scopes.filter((scope) => granted.includes(scope)).join(' ') };
}
