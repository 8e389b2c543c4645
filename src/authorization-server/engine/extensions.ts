// The two needs for which the engine has no documented hook, each with its reason; the tests named here fail when the engine changes.
import type Provider from 'oidc-provider';
import type { GrantModels } from './grant-models.ts';

type Nameable = { jti?: string; grantId?: string };

/**
 * Codes and refresh tokens carry our names (`grants/opaque-token.ts`). The engine calls the documented `ttl` function in `save()` just before it
 * makes a random name for a token that has none, so the function that says how long also says what it is called.
 * Test: "codes and refresh tokens are named after their grant".
 */
export function ttlThatSetsValue(
  kind: 'AuthorizationCode' | 'RefreshToken',
  seconds: number,
  createTokenValue: GrantModels['createTokenValue'],
) {
  return (_ctx: unknown, token: Nameable): number => {
    if (token.grantId && !token.jti) token.jti = createTokenValue(kind, token.grantId);
    return seconds;
  };
}

/**
 * The engine refuses to revoke and to introspect JWTs (RFC 7009 and RFC 7662 let it). Its `findToken` asks each model for the presented value, so we present one that looks
 * opaque in place of the JWT, and our AccessToken model resolves it. Only on those two routes.
 * Test: "a client revokes its own access token".
 */
export function presentJwtsAsOpaque(provider: Provider): void {
  const { prototype } = (provider as unknown as { OIDCContext: { prototype: object } }).OIDCContext;
  const assembled = Symbol('params');
  type Context = { route?: string; [assembled]?: Record<string, unknown> };
  Object.defineProperty(prototype, 'params', {
    configurable: true,
    get(this: Context) {
      return this[assembled];
    },
    set(this: Context, params: Record<string, unknown>) {
      const isAboutToken = this.route === 'revocation' || this.route === 'introspection';
      // Refresh tokens have no dots. Their first letters can be those of a JWT.
      if (isAboutToken && typeof params.token === 'string' && params.token.includes('.')) {
        params.token = OPAQUE_PREFIX + params.token.replaceAll('.', '~');
      }
      this[assembled] = params;
    },
  });
}

const OPAQUE_PREFIX = 'jwt~';

/** The JWT behind a value made by `presentJwtsAsOpaque`. */
export function presentedJwt(value: string): string | undefined {
  return value.startsWith(OPAQUE_PREFIX)
    ? value.slice(OPAQUE_PREFIX.length).replaceAll('~', '.')
    : undefined;
}
