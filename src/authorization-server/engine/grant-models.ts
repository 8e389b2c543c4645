// Grant and AccessToken of the engine, and with the token models all that is kept in the one record of a grant.
import type { Adapter } from 'oidc-provider';
import { allowsLevel, revokeAccessToken } from '../../grants/grant-record.ts';
import { announceGrant } from '../../grants/grants.ts';
import { createOpaqueToken, type Part } from '../../grants/opaque-token.ts';
import { isLevel } from '../../permission-level.ts';
import { KEEP } from '../../store/store.ts';
import { JWT_BEARER } from '../metadata.ts';
import { presentedJwt } from './extensions.ts';
import { type LastSteps, usedProofModel } from './dpop.ts';
import {
  requestEndReason,
  requestRecords,
  type RequestRecords,
  requireRequest,
} from './request-records.ts';
import { codeModel, refreshTokenModel, type TokenModelOptions } from './token-models.ts';

export type GrantModelOptions = TokenModelOptions & {
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
  /** Thumbprint of the key that it is bound to (RFC 9449 section 6.1). */
  jkt?: string;
};

export type GrantModels = {
  models: Record<string, Partial<Adapter>>;
  /** The value of the code or refresh token that is about to be saved; the grant was read earlier in the same request. */
  createTokenValue: (kind: 'AuthorizationCode' | 'RefreshToken', grantId: string) => string;
};

export function grantModels(options: GrantModelOptions): GrantModels {
  const records = requestRecords(options);
  const lastSteps: LastSteps = new WeakMap();
  return {
    models: {
      Grant: grantModel(records),
      AuthorizationCode: codeModel(options, records, lastSteps),
      RefreshToken: refreshTokenModel(options, records),
      AccessToken: accessTokenModel(options, records),
      ReplayDetection: usedProofModel(options.store, lastSteps),
    },
    createTokenValue(kind, grantId) {
      const record = records.seen(grantId)?.value;
      if (!record) throw new Error('a token was named before its grant was read');
      const part: Part = kind === 'AuthorizationCode' ? 'code' : (record.refresh?.generation ?? 0);
      return createOpaqueToken(options.tokenKeys, grantId, part, record.seed);
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
      await end(id, requestEndReason());
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
