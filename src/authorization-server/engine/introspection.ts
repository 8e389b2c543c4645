// Token introspection (RFC 7662): for the resource servers of the settings only, and active is what the token endpoint would still stand by.
import { errors } from 'oidc-provider';
import { guarded } from './refusals.ts';
import { requireLevel, type TokenPolicy } from './token-request.ts';

/** A refresh token names its connect link as resource, an access token as audience. */
type FoundToken = {
  accountId?: string;
  iat?: number;
  gty?: string;
  resource?: unknown;
  aud?: unknown;
};

/** What the policy refuses is answered like an unknown token: `active` false and nothing more. */
export function introspection(policy: TokenPolicy, clients: readonly { id: string }[]) {
  return {
    enabled: true,
    allowedPolicy: guarded(async function allowedPolicy(
      _ctx: unknown,
      { clientId }: { clientId: string },
      { accountId, iat, gty, resource, aud }: FoundToken,
    ): Promise<boolean> {
      const mayAsk = clients.some(({ id }) => id === clientId);
      return mayAsk && isStillAllowed(policy, { accountId, iat, gty, resource: resource ?? aud });
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
