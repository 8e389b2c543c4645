// The reference: oidc-provider alone. Arguments: the port and optionally a Redis URL instead of memory.
import { exportJWK, generateKeyPair } from 'jose';
import { type Configuration, type KoaContextWithOIDC, Provider } from 'oidc-provider';
import { redisAdapter } from './redis-adapter.ts';

const LEVELS = ['analytics', 'operations', 'admin', 'full'];

const [, , port, redisUrl] = process.argv;
if (!port) throw new Error('needs a port');
const { privateKey } = await generateKeyPair('ES256', { extractable: true });
const signingKey = { ...(await exportJWK(privateKey)), alg: 'ES256', use: 'sig', kid: 'bench' };
const provider = new Provider(`http://localhost:${port}`, configuration());
provider.use(approveEverything);
provider.listen(Number(port), 'localhost');
process.once('SIGTERM', () => process.exit());

/** The same settings as Gatehouse: public clients, JWT access tokens for one resource, rotating refresh tokens. */
function configuration(): Configuration {
  return {
    ...(redisUrl === undefined ? {} : { adapter: redisAdapter(redisUrl) }),
    jwks: { keys: [signingKey] } as Configuration['jwks'],
    cookies: { keys: ['a key for the cookies of the benchmark'] },
    scopes: [...LEVELS, 'offline_access'],
    responseTypes: ['code'],
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    features: {
      devInteractions: { enabled: false },
      dPoP: { enabled: false },
      pushedAuthorizationRequests: { enabled: false },
      rpInitiatedLogout: { enabled: false },
      userinfo: { enabled: false },
      registration: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_ctx, resource) => ({
          scope: LEVELS.join(' '),
          audience: resource,
          accessTokenTTL: 3600,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
    interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
    // Every sign-in creates its own grant, as in Gatehouse: the adapter gets slower with every token of a grant.
    loadExistingGrant: (ctx) => {
      const grantId = ctx.oidc.result?.consent?.grantId;
      return grantId === undefined ? undefined : provider.Grant.find(grantId);
    },
    findAccount: (_ctx, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
    expiresWithSession: () => false,
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    ttl: {
      AccessToken: 3600,
      AuthorizationCode: 60,
      RefreshToken: 30 * 86_400,
      Grant: 90 * 86_400,
      Session: 12 * 3600,
      Interaction: 900,
    },
  };
}

/** Signs Ada in and approves the request without pages. */
async function approveEverything(
  ctx: KoaContextWithOIDC,
  next: () => Promise<void>,
): Promise<void> {
  if (!ctx.path.startsWith('/interaction/')) return next();
  const { prompt, params, session } = await provider.interactionDetails(ctx.req, ctx.res);
  if (prompt.name === 'login') {
    const login = { accountId: 'ada' };
    return provider.interactionFinished(ctx.req, ctx.res, { login });
  }
  const { accountId } = session ?? {};
  const grant = new provider.Grant({ accountId, clientId: String(params.client_id) });
  grant.addOIDCScope(String(params.scope));
  grant.addResourceScope(String(params.resource), String(params.scope));
  const consent = { grantId: await grant.save() };
  return provider.interactionFinished(ctx.req, ctx.res, { consent });
}
