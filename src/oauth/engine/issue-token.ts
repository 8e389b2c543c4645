// Issues the access token of our own grant types, which have no refresh token.
import type { KoaContextWithOIDC, ResourceServer } from 'oidc-provider';
import type { UseRecorder } from '../../links/use-recorder.ts';
import type { Services } from '../../services.ts';
import type { Settings } from '../../settings/settings.ts';
import type { VerifiedProof } from './dpop.ts';
import type { TokenPolicy } from './resource-indicators.ts';

/** What the exchanges of assertions work with. */
export type AssertionContext = {
  settings: Settings;
  services: Services;
  policy: TokenPolicy;
  uses: UseRecorder;
};

/** Of a JWT bearer grant (RFC 7523 section 2.1). */
export type AssertionParameters = {
  assertion?: string;
  scope?: string;
  resource?: string | string[];
};

export type DescribeResource = (
  ctx: KoaContextWithOIDC,
  resource: string,
) => Promise<ResourceServer>;

export type IssuedToken = {
  grantId: string;
  resource: string;
  /** The levels up to that of the token. */
  scopes: readonly string[];
  gty: string;
  describeResource: DescribeResource;
  /** Seconds. Default: the lifetime of the settings. */
  maxSeconds?: number;
  /** Binds the token to its key. */
  proof: VerifiedProof | undefined;
};

/** Responds as in RFC 6749 section 5.1. False, without a response, if the grant has ended. */
export async function issueAccessToken(
  ctx: KoaContextWithOIDC,
  { grantId, resource, scopes, gty, describeResource, maxSeconds, proof }: IssuedToken,
): Promise<boolean> {
  const { provider, client } = ctx.oidc;
  const grant = await provider.Grant.find(grantId);
  if (!grant?.accountId || !client) return false;
  ctx.oidc.entity('Grant', grant);
  const { accountId } = grant;
  const token = new provider.AccessToken({ client, accountId, grantId, gty });
  token.resourceServer = new provider.ResourceServer(
    resource,
    await describeResource(ctx, resource),
  );
  const available = token.resourceServer.scopes;
  const allowed = scopes.filter((scope) => available.has(scope));
  token.scope = grant.getResourceScopeFiltered(resource, allowed);
  if (maxSeconds !== undefined)
    Object.assign(token, { expiresIn: Math.min(token.expiration, maxSeconds) });
  if (proof) token.setThumbprint('jkt', proof.thumbprint);
  ctx.oidc.entity('AccessToken', token);
  ctx.body = {
    access_token: await token.save(),
    expires_in: token.expiration,
    token_type: token.tokenType,
    scope: token.scope,
  };
  return true;
}
