// Token introspection (RFC 7662), only for the resource servers in the settings. A token is active if the token endpoint would still issue it.
import { errors, type KoaContextWithOIDC } from 'oidc-provider';
import { connectorIdOf } from '../../links/connect-link.ts';
import { isPaused } from '../../links/connector.ts';
import { requiresDpop } from '../../dpop/required-levels.ts';
import { isAtLeast, type Level, levelOfScope } from '../../permission-levels.ts';
import { mapStoreErrors } from './errors.ts';
import { findKnownClient } from './known-client.ts';
import { requireLevel, type TokenPolicy } from './resource-indicators.ts';

/** A refresh token has its connect link as `resource`, an access token as `aud`. */
type FoundToken = {
  accountId?: string;
  clientId?: string;
  iat?: number;
  gty?: string;
  scope?: string;
  resource?: unknown;
  aud?: unknown;
  jkt?: string;
};

/** If the policy rejects a token, the response is that of an unknown token: `active` false and nothing more. */
export function introspection(policy: TokenPolicy, clients: readonly { id: string }[]) {
  return {
    enabled: true,
    allowedPolicy: mapStoreErrors(async function allowedPolicy(
      ctx: KoaContextWithOIDC,
      { clientId: caller }: { clientId: string },
      { accountId, clientId, iat, gty, scope, resource, aud, jkt }: FoundToken,
    ): Promise<boolean> {
      const mayAsk = clients.some(({ id }) => id === caller);
      // A refresh token may give a token of a lower level. An access token has one level.
      const level = aud === undefined ? undefined : levelOfScope(scope);
      const lacksKey =
        level !== undefined && jkt === undefined && requiresDpop(policy.settings, level);
      const granted = { accountId, iat, gty, scope, resource: resource ?? aud };
      if (!mayAsk || lacksKey || !(await isStillAllowed(policy, granted, level))) return false;
      // The engine reads it for an active token.
      return (await findKnownClient(ctx.oidc.provider, String(clientId))) !== undefined;
    }),
  };
}

/** Whether the token endpoint would still grant this, and for an access token at its `level`, through a link that is not paused. */
async function isStillAllowed(
  policy: TokenPolicy,
  granted: Record<string, unknown>,
  level: Level | undefined,
): Promise<boolean> {
  try {
    const allowed = await requireLevel(policy, granted);
    if (level === undefined) return true;
    const id = connectorIdOf(policy.resourceUrl, String(granted.resource));
    const connector = id === undefined ? undefined : await policy.readConnector(id);
    const pauses = connector !== undefined && isPaused(connector, policy.settings);
    return !pauses && isAtLeast(policy.settings.levels, allowed, level);
  } catch (error) {
    if (error instanceof errors.InvalidGrant) return false;
    throw error;
  }
}
