// The engine's models that are stored in the grant record: grants, codes, refresh tokens, revoked access tokens. Redeems codes and refresh tokens
// (RFC 6749 sections 4.1.3 and 6).
import type { Adapter, KoaContextWithOIDC } from 'oidc-provider';
import { createOpaqueToken, type Part } from '../../connections/opaque-token.ts';
import { mapStoreErrors } from './errors.ts';
import { accessTokenModel } from './models/access-token.ts';
import { codeModel } from './models/code.ts';
import { deviceCodeModel } from './models/device-code.ts';
import type { GrantModelOptions } from './models/options.ts';
import { redeem } from './models/redemption.ts';
import { refreshTokenModel } from './models/refresh-token.ts';
import { replayModel } from './models/replay.ts';
import { requestEndReason, type RequestGrants, requestGrants } from './models/request-grants.ts';

export type GrantModels = {
  models: Record<string, Partial<Adapter>>;
  /** Returns the value of the code or refresh token that is about to be saved. Needs a grant that the same request has read. */
  createTokenValue: (kind: 'AuthorizationCode' | 'RefreshToken', grantId: string) => string;
  /** Consumes the code that a token request exchanged. Call it when the engine has made the response, which is sent only after it resolves. */
  redeem: (ctx: KoaContextWithOIDC) => Promise<void>;
};

export function grantModels(options: GrantModelOptions): GrantModels {
  const records = requestGrants(options);
  return {
    models: {
      Grant: grantModel(records),
      AuthorizationCode: codeModel(options, records),
      RefreshToken: refreshTokenModel(options, records),
      DeviceCode: deviceCodeModel(options, records),
      AccessToken: accessTokenModel(options, records),
      ReplayDetection: replayModel(options),
    },
    redeem: mapStoreErrors((ctx: KoaContextWithOIDC) => redeem(options, records, ctx)),
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
