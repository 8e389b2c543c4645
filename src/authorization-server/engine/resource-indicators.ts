// Resource indicators (RFC 8707): every resource is a connect link, which is the audience of its tokens.
import { errors, type KoaContextWithOIDC, type ResourceServer } from 'oidc-provider';
import { isUsable } from '../../connectors/connector.ts';
import { connectorIdOf } from '../../connectors/connect-link.ts';
import { levelsUpTo, OFFLINE_ACCESS } from '../../permission-level.ts';
import { SIGNING_ALGORITHM } from '../../keys/signing-keys.ts';
import { mapStoreErrors } from './errors.ts';
import { requireLevel, type TokenPolicy } from './token-request.ts';

export const NO_RESOURCE = 'point the client at a connect link: the request names no resource';
const UNKNOWN_RESOURCE = 'this connect link is unknown, revoked or expired; ask for a fresh one';

/** `signingKid` returns the id of the current signing key. */
export function resourceIndicators(policy: TokenPolicy, signingKid: () => string) {
  return {
    enabled: true,
    /** `canonicalAuthorizationRequest` has already added the default connector, if there is one. */
    defaultResource(_ctx: KoaContextWithOIDC, _client: unknown, oneOf?: string[]): string {
      if (oneOf) throw new errors.InvalidTarget('ask for one resource at a time');
      throw new errors.InvalidTarget(NO_RESOURCE);
    },
    useGrantedResource: () => true,
    getResourceServerInfo: mapStoreErrors(async function resourceServerInfo(
      ctx: KoaContextWithOIDC,
      resource: string,
    ): Promise<ResourceServer> {
      const levels =
        ctx.oidc.route === 'token'
          ? levelsUpTo(await requireLevel(policy, grantedIn(ctx, resource)))
          : levelsUpTo((await requireConnector(policy, ctx, resource)).level);
      return {
        scope: [...levels, OFFLINE_ACCESS].join(' '),
        audience: resource,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: SIGNING_ALGORITHM, kid: signingKid() } },
      };
    }),
  };
}

function grantedIn(ctx: KoaContextWithOIDC, resource: string) {
  const { accountId, iat } = ctx.oidc.entities.Grant ?? {};
  return { resource, accountId, iat, gty: ctx.oidc.params?.grant_type };
}

/** Refreshes the cache, also for the exchange a moment later. A used-up link is still a resource: the person may hold a use. */
async function requireConnector(policy: TokenPolicy, ctx: KoaContextWithOIDC, resource: string) {
  if (Array.isArray(ctx.oidc.params?.resource))
    throw new errors.InvalidTarget('ask for one resource at a time');
  const id = connectorIdOf(policy.resourceUrl, resource);
  const connector = id === undefined ? undefined : await policy.refreshConnector(id);
  if (!connector || !isUsable(connector, policy.now()))
    throw new errors.InvalidTarget(UNKNOWN_RESOURCE);
  return connector;
}
