// The engine's models that are stored in the grant record, and its replay check of DPoP proofs.
import type { Adapter } from 'oidc-provider';
import { allowsLevel, revokeAccessToken } from '../../grants/grant-record.ts';
import { announceGrant } from '../../grants/grants.ts';
import { createOpaqueToken, type Part } from '../../grants/opaque-token.ts';
import { isLevel } from '../../permission-level.ts';
import { KEEP } from '../../store/store.ts';
import { JWT_BEARER } from '../metadata.ts';
import { presentedJwt } from './extensions.ts';
import { usedProofModel } from './dpop.ts';
import {
  requestEndReason,
  requestGrants,
  type RequestGrants,
  requireRequest,
} from './request-grant.ts';
import {
  codeModel,
  completeRedemption,
  type RedemptionOptions,
  refreshTokenModel,
} from './redemption.ts';

export type GrantModelOptions = RedemptionOptions & {
  /** Returns the claims of a valid access token of ours. */
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
  /** Thumbprint of the key that it is bound to (RFC 9449 section 6.1). */
  jkt?: string;
};

export type GrantModels = {
  models: Record<string, Partial<Adapter>>;
  /** Returns the value of the code or refresh token that is about to be saved. Needs a grant that the same request has read. */
  createTokenValue: (kind: 'AuthorizationCode' | 'RefreshToken', grantId: string) => string;
};

export function grantModels(options: GrantModelOptions): GrantModels {
  const records = requestGrants(options);
  return {
    models: {
      Grant: grantModel(records),
      AuthorizationCode: codeModel(options, records),
      RefreshToken: refreshTokenModel(options, records),
      AccessToken: accessTokenModel(options, records),
      ReplayDetection: usedProofModel(options.store, () =>
        completeRedemption(options, records, 'proof consumed'),
      ),
    },
    createTokenValue(kind, grantId) {
      const record = records.seen(grantId)?.value;
      if (!record) throw new Error('the grant of the token has not been read');
      const part: Part = kind === 'AuthorizationCode' ? 'code' : (record.refresh?.generation ?? 0);
      return createOpaqueToken(options.tokenKeys, grantId, part, record.seed);
    },
  };
}

/** The consent step writes the grant, so the engine never saves one. */
function grantModel({ load, end }: RequestGrants): Partial<Adapter> {
  return {
    async find(id) {
      return (await load(id))?.value.grant;
    },
    async destroy(id) {
      await end(id, requestEndReason());
    },
  };
}

/** Access tokens are JWTs and not stored. The grant record lists the revoked ones (RFC 7009). */
function accessTokenModel(options: GrantModelOptions, records: RequestGrants): Partial<Adapter> {
  const { store, now, verifyAccessToken } = options;
  return {
    async find(value) {
      const jwt = presentedJwt(value);
      const claims = jwt === undefined ? undefined : await verifyAccessToken(jwt);
      const record = claims && (await records.load(claims.grantId))?.value;
      if (!record || record.revoked?.[claims.jti] !== undefined) return undefined;
      if (!isLevel(claims.scope) || !allowsLevel(record, claims.scope)) return undefined;
      const gty = record.vouchedAt === undefined ? {} : { gty: JWT_BEARER };
      return { kind: 'AccessToken', format: 'opaque', ...claims, ...gty, extra: {} };
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
