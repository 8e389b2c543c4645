// Resource indicators (RFC 8707): the only resources there are, are connect links, and each is the audience of its own tokens.
import { errors, type KoaContextWithOIDC, type ResourceServer } from 'oidc-provider';
import { isUsable } from '../../connectors/connector.ts';
import { connectorIdOf } from '../../connectors/connect-link.ts';
import { levelsUpTo, OFFLINE_ACCESS } from '../../permission-level.ts';
import { SIGNING_ALGORITHM } from '../../keys/signing-keys.ts';
import { guarded } from './refusals.ts';
import { requireLevel, type TokenPolicy } from './token-request.ts';

export const NO_RESOURCE = 'point the client at a connect link: the request names no resource';
const UNKNOWN_RESOURCE = 'this connect link is unknown, revoked or expired; ask for a fresh one';

/** `signingKid`: the id of the key that signs at the time of the call. */
export function resourceIndicators(policy: TokenPolicy, signingKid: () => string) {
  return {
    enabled: true,
    /** The request was given the default connector already, if there is one. */
    defaultResource(_ctx: KoaContextWithOIDC, _client: unknown, oneOf?: string[]): string {
      if (oneOf) throw new errors.InvalidTarget('ask for one resource at a time');
      throw new errors.InvalidTarget(NO_RESOURCE);
    },
    useGrantedResource: () => true,
    getResourceServerInfo: guarded(async function resourceServerInfo(
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

/**
 * Read afresh, which also leaves it at hand for the exchange a moment later. A link without uses left is still a resource: only the
 * person who approves may need a new use.
 */
async function requireConnector(policy: TokenPolicy, ctx: KoaContextWithOIDC, resource: string) {
  if (Array.isArray(ctx.oidc.params?.resource))
    throw new errors.InvalidTarget('ask for one resource at a time');
  const id = connectorIdOf(policy.resourceUrl, resource);
  const connector = id === undefined ? undefined : await policy.refreshConnector(id);
  if (!connector || !isUsable(connector, policy.now()))
    throw new errors.InvalidTarget(UNKNOWN_RESOURCE);
  return connector;
}
