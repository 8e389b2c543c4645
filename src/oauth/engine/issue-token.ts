// Issues the access token of our own grant types, which have no refresh token.
import type { KoaContextWithOIDC, ResourceServer } from 'oidc-provider';
import type { VerifiedProof } from './dpop.ts';

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
