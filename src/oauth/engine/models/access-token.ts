import type { Adapter } from 'oidc-provider';
import { allowsLevel, revokeAccessToken } from '../../../connections/grant-record.ts';
import { announceGrant } from '../../../connections/grants.ts';
import { KEEP } from '../../../store/store.ts';
import { JWT_BEARER } from '../../metadata.ts';
import { requireContext } from '../engine-request.ts';
import { presentedJwt } from '../extensions.ts';
import type { GrantModelOptions } from './options.ts';
import type { RequestGrants } from './request-grants.ts';

/** Access tokens are JWTs and not stored. The grant record lists the revoked ones (RFC 7009). */
export function accessTokenModel(
  options: GrantModelOptions,
  records: RequestGrants,
): Partial<Adapter> {
  const { store, settings, now, verifyAccessToken } = options;
  return {
    async find(value) {
      const jwt = presentedJwt(value);
      const claims = jwt === undefined ? undefined : await verifyAccessToken(jwt);
      const record = claims && (await records.load(claims.grantId))?.value;
      if (!record || record.revoked?.[claims.jti] !== undefined) return undefined;
      if (claims.scope === undefined || !allowsLevel(settings.levels, record, claims.scope))
        return undefined;
      const gty = record.vouchedAt === undefined ? {} : { gty: JWT_BEARER };
      return { kind: 'AccessToken', format: 'opaque', ...claims, ...gty, extra: {} };
    },
    async destroy(jti) {
      const token = requireContext().oidc.entities.AccessToken;
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
