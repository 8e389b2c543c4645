// Token introspection (RFC 7662), only for the resource servers in the settings. A token is active if the token endpoint would still issue it.
import { errors } from 'oidc-provider';
import { requiresDpop } from '../../dpop/required-levels.ts';
import { levelOfScope } from '../../permission-levels.ts';
import { mapStoreErrors } from './errors.ts';
import { requireLevel, type TokenPolicy } from './resource-indicators.ts';

/** A refresh token has its connect link as `resource`, an access token as `aud`. */
type FoundToken = {
  accountId?: string;
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
      _ctx: unknown,
      { clientId }: { clientId: string },
      { accountId, iat, gty, scope, resource, aud, jkt }: FoundToken,
    ): Promise<boolean> {
      const mayAsk = clients.some(({ id }) => id === clientId);
      // A refresh token may give a token of a lower level.
      const lacksKey =
        aud !== undefined &&
        jkt === undefined &&
        requiresDpop(policy.settings, levelOfScope(scope) ?? '');
      return (
        mayAsk &&
        !lacksKey &&
        isStillAllowed(policy, { accountId, iat, gty, scope, resource: resource ?? aud })
      );
    }),
  };
}

async function isStillAllowed(
  policy: TokenPolicy,
  granted: Record<string, unknown>,
): Promise<boolean> {
  try {
    await requireLevel(policy, granted);
    return true;
  } catch (error) {
    if (error instanceof errors.InvalidGrant) return false;
    throw error;
  }
}
