// The configuration of oidc-provider: OAuth 2.1 for MCP clients, with every unused feature disabled.
import type { JWK } from 'jose';
import type { Adapter, Configuration, ErrorOut, KoaContextWithOIDC } from 'oidc-provider';
import { type Account, isSessionValid } from '../../people/account.ts';
import { isSessionRecent } from '../../people/recheck.ts';
import { highestLevelIn, levelIds, type Levels, OFFLINE_ACCESS } from '../../permission-levels.ts';
import type { App } from '../../clients/rules.ts';
import { DEVICE_CODE } from '../../clients/clients.ts';
import { requestContext } from '../../http/request-context.ts';
import { CLIENT_AUTH_METHODS, DEVICE_PATH, ENDPOINTS, JWT_BEARER } from '../metadata.ts';
import { isWorkloadSubject } from '../../settings/workloads.ts';
import { WORKLOAD_CLIENT } from './workloads.ts';
import type { ClientMetadataDocuments } from './client-metadata-documents.ts';
import { secretDigest } from '../../clients/client-secrets.ts';
import { CLOCK_TOLERANCE_SECONDS, assertionAudiences, requireShortLived } from './client-keys.ts';
import { DEVICE_CODE_SECONDS, USER_CODE_MASK } from './device-codes.ts';
import { ttlThatSetsValue } from './extensions.ts';
import type { GrantModels } from './grant-models.ts';
import { approvedGrantId, interactionPrompts } from './authorization-request.ts';
import type { introspection } from './introspection.ts';
import { dpopFeature } from './dpop.ts';
import { type DeviceOutcome, engineRequest } from './engine-request.ts';
import type { RedirectPolicy } from './redirect-uris.ts';
import { mapStoreErrors } from './errors.ts';
import { registration, requireUnblocked } from './registration.ts';
import type { resourceIndicators } from './resource-indicators.ts';
import { DPOP_ALGORITHMS } from '../../dpop/proof.ts';
import { INTERACTION_SECONDS } from '../../connections/attempts.ts';
import { grantLifetimes } from '../../connections/grant-lifetime.ts';
import type { Services } from '../../services.ts';
import type { Settings } from '../../settings/settings.ts';
import { renderErrorPage } from './authorization-errors.ts';
import type { CookieSignatures } from '../../keys/cookie-signatures.ts';
import { SIGNING_ALGORITHM } from '../../keys/signing-keys.ts';
import { LocalSigningKey } from './signing-key.ts';
import { ASSERTION_ALGORITHMS, publicKeys } from '../../settings/key-set.ts';

export type ConfigurationOptions = {
  documents: ClientMetadataDocuments;
  redirectPolicy: RedirectPolicy;
  adapter: (model: string) => Adapter;
  signingKeys: readonly JWK[];
  cookieKeys: CookieSignatures;
  createTokenValue: GrantModels['createTokenValue'];
  resourceIndicators: ReturnType<typeof resourceIndicators>;
  introspection: ReturnType<typeof introspection>;
  readAccount: (id: string) => Promise<Account | undefined>;
};

const GRANT_TYPES = ['authorization_code', 'refresh_token'];

export const COOKIE = { signed: true, httpOnly: true, sameSite: 'lax', overwrite: true } as const;

export function configuration(
  settings: Settings,
  { pages, keys, store, now }: Services,
  options: ConfigurationOptions,
): Configuration {
  const { createTokenValue, documents } = options;
  const { lifetimes, authorization } = settings;
  const idJagClients = new Set(authorization.trustedIssuers.flatMap(({ clients }) => clients));
  return {
    adapter: options.adapter,
    jwks: { keys: options.signingKeys.map((jwk) => new LocalSigningKey(jwk)) },
    clients: [
      ...settings.clients.preRegistered.map((client) =>
        preRegisteredClient(client, [
          ...(idJagClients.has(client.id) ? [JWT_BEARER] : []),
          ...(authorization.deviceGrant ? [DEVICE_CODE] : []),
        ]),
      ),
      ...authorization.introspectionClients.map(resourceServerClient),
      ...(authorization.trustedIssuers.some(({ workloads }) => workloads.length > 0)
        ? [workloadClient]
        : []),
    ],
    clientDefaults: {
      id_token_signed_response_alg: SIGNING_ALGORITHM,
      grant_types: [...GRANT_TYPES],
      response_types: ['code'],
      response_modes: ['query'],
    },
    clientAuthMethods: [...CLIENT_AUTH_METHODS],
    enabledJWA: {
      dPoPSigningAlgValues: [...DPOP_ALGORITHMS],
      clientAuthSigningAlgValues: [...ASSERTION_ALGORITHMS],
    },
    assertJwtClientAuthClaimsAndHeader: requireShortLived(assertionAudiences(settings.authUrl)),
    clockTolerance: CLOCK_TOLERANCE_SECONDS,
    responseTypes: ['code'],
    scopes: [...levelIds(settings.levels), OFFLINE_ACCESS],
    pkce: { required: () => true },
    allowOmittingSingleRegisteredRedirectUri: false,
    acceptQueryParamAccessTokens: false,
    clientBasedCORS: () => true,
    routes: {
      ...ENDPOINTS,
      device_authorization: ENDPOINTS.deviceAuthorization,
      code_verification: DEVICE_PATH,
    },
    cookies: {
      keys: options.cookieKeys,
      names: cookieNames(settings.authUrl.startsWith('https:')),
      long: COOKIE,
      short: COOKIE,
    },
    fetch: documents.fetch as Configuration['fetch'],
    fetchResponseBodyLimits: { 'client_id metadata document': Infinity },
    features: {
      ...SWITCHED_OFF,
      externalSigningSupport: { enabled: true, ack: 'experimental-01' },
      registration: registration(
        options.redirectPolicy,
        mapStoreErrors((app: App) => requireUnblocked(store, app)),
      ),
      clientIdMetadataDocument: documents.feature,
      resourceIndicators: options.resourceIndicators,
      revocation: {
        enabled: true,
        allowedPolicy: (
          _ctx: unknown,
          client: { clientId: string },
          token: { clientId?: string },
        ) => client.clientId === token.clientId,
      },
      introspection: options.introspection,
      dPoP: dpopFeature(keys.dpopNonces),
      ...(authorization.deviceGrant ? { deviceFlow: deviceFlow() } : {}),
    } as Configuration['features'],
    interactions: {
      policy: interactionPrompts(lifetimes.session),
      url: (_ctx, interaction) => `/interaction/${interaction.uid}`,
    },
    findAccount: mapStoreErrors(async (_ctx: unknown, id: string) => {
      const account = await options.readAccount(id);
      if (!account || account.disabledAt !== undefined) return undefined;
      const hasSession = (signedInAt: number) =>
        isSessionValid(account, signedInAt) &&
        isSessionRecent(settings, account, signedInAt, now());
      return { accountId: id, claims: () => ({ sub: id }), hasSession };
    }),
    loadExistingGrant: async (ctx) => {
      const grantId = approvedGrantId(ctx);
      const grant = grantId === undefined ? undefined : await ctx.oidc.provider.Grant.find(grantId);
      // Another person may have signed in meanwhile, in another tab. Their consent is needed.
      return grant?.accountId === ctx.oidc.account?.accountId ? grant : undefined;
    },
    expiresWithSession: () => false,
    issueRefreshToken: (_ctx, client, code) =>
      client.grantTypeAllowed('refresh_token') && code.scopes.has(OFFLINE_ACCESS),
    rotateRefreshToken: true,
    revokeGrantPolicy: (ctx) => !(ctx.oidc.route === 'revocation' && ctx.oidc.entities.AccessToken),
    extraTokenClaims: (ctx, token) => ({
      grant_id: 'grantId' in token ? token.grantId : undefined,
      platform_sub: engineRequest(ctx).workload?.subject,
    }),
    formats: { customizers: { jwt: setScopeAndConnector(settings.levels) } },
    ttl: {
      AccessToken: (ctx) => accessTokenTtl(ctx, lifetimes.accessToken),
      AuthorizationCode: ttlThatSetsValue(
        'AuthorizationCode',
        grantLifetimes(lifetimes).code,
        createTokenValue,
      ),
      RefreshToken: ttlThatSetsValue('RefreshToken', lifetimes.refreshTokenIdle, createTokenValue),
      DeviceCode: DEVICE_CODE_SECONDS,
      Grant: lifetimes.refreshTokenAbsolute,
      Session: lifetimes.session,
      Interaction: INTERACTION_SECONDS,
    },
    renderError: renderErrorPage(pages, settings.clients),
  } as Configuration;
}

const workloadClient = {
  client_id: WORKLOAD_CLIENT,
  client_name: 'Workload',
  token_endpoint_auth_method: 'none',
  grant_types: [JWT_BEARER],
  response_types: [],
  redirect_uris: [],
} as const;

const SWITCHED_OFF = {
  devInteractions: { enabled: false },
  pushedAuthorizationRequests: { enabled: false },
  rpInitiatedLogout: { enabled: false },
  userinfo: { enabled: false },
};

/**
 * HTTPS adds the prefixes `__Host-` and `__Secure-` (RFC 6265bis section 4.1.3). The session cookie has the path `/`, the others the paths of
 * their interaction.
 */
function cookieNames(isHttps: boolean) {
  const [host, secure] = isHttps ? ['__Host-', '__Secure-'] : ['', ''];
  return {
    session: `${host}gatehouse-session`,
    interaction: `${secure}gatehouse-interaction`,
    resume: `${secure}gatehouse-resume`,
  };
}

function preRegisteredClient(
  { id, name, redirectUris, secret, jwks, jwksUri }: Settings['clients']['preRegistered'][number],
  furtherGrantTypes: readonly string[],
) {
  return {
    grant_types: [...GRANT_TYPES, ...furtherGrantTypes],
    client_id: id,
    client_name: name,
    redirect_uris: redirectUris,
    application_type: 'native' as const,
    ...clientAuthentication({ secret, jwks, jwksUri }),
  };
}

type Credentials = Pick<
  Settings['clients']['preRegistered'][number],
  'secret' | 'jwks' | 'jwksUri'
>;

function clientAuthentication({ secret, jwks, jwksUri }: Credentials) {
  const byKey = { token_endpoint_auth_method: 'private_key_jwt' as const };
  if (jwksUri !== undefined) return { ...byKey, jwks_uri: jwksUri };
  if (jwks !== undefined) return { ...byKey, jwks: { keys: publicKeys(jwks) } };
  if (secret === undefined) return { token_endpoint_auth_method: 'none' as const };
  return {
    token_endpoint_auth_method: 'client_secret_basic' as const,
    client_secret: secretDigest(secret),
  };
}

/** The pages are our own: `consent/device.ts`. */
function deviceFlow() {
  const leave = (ctx: KoaContextWithOIDC, outcome: DeviceOutcome) => {
    engineRequest(ctx).deviceOutcome = outcome;
    ctx.body = '';
  };
  return {
    enabled: true,
    charset: 'base-20',
    mask: USER_CODE_MASK,
    deviceInfo: (ctx: KoaContextWithOIDC) => ({ address: requestContext(ctx).address }),
    successSource: (ctx: KoaContextWithOIDC) => leave(ctx, 'approved'),
    userCodeInputSource: (ctx: KoaContextWithOIDC, _form: string, out?: ErrorOut, error?: Error) =>
      leave(ctx, error?.name === 'AbortedError' ? 'denied' : { error: out?.error ?? 'expired' }),
  };
}

/** A resource server may only introspect tokens. */
function resourceServerClient({
  id,
  secret,
}: Settings['authorization']['introspectionClients'][number]) {
  return {
    client_id: id,
    client_secret: secretDigest(secret),
    token_endpoint_auth_method: 'client_secret_basic' as const,
    grant_types: [],
    response_types: [],
    redirect_uris: [],
  };
}

/** An access token expires with its grant at the latest. */
function accessTokenTtl(ctx: KoaContextWithOIDC, accessToken: number): number {
  const left = (ctx.oidc.entities.Grant?.exp ?? Infinity) - Math.floor(Date.now() / 1000);
  return Math.max(1, Math.min(accessToken, left));
}

/** The scope of an access token is its one level (RFC 9068 section 2.2.3), and the client of a workload its subject. `connector` is the id in its connect link. */
function setScopeAndConnector(levels: Levels) {
  return (
    _ctx: unknown,
    token: object,
    { payload }: { payload: Record<string, unknown> },
  ): void => {
    payload.scope = highestLevelIn(levels, String(payload.scope ?? ''));
    // A workload has no client of its own.
    if (isWorkloadSubject(String(payload.sub))) payload.client_id = payload.sub;
    if ('aud' in token) payload.connector = String(token.aud).split('/').at(-2);
  };
}
