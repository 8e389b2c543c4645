// The configuration of oidc-provider: OAuth 2.1 for MCP clients, with every unused feature disabled.
import type { KeyObject } from 'node:crypto';
import type Koa from 'koa';
import type { JWK } from 'jose';
import type { Adapter, Configuration, ErrorOut, KoaContextWithOIDC } from 'oidc-provider';
import type { Account } from '../../accounts/account.ts';
import { highestLevelIn, LEVELS, OFFLINE_ACCESS } from '../../permission-level.ts';
import { CLIENT_AUTH_METHODS, ENDPOINTS, JWT_BEARER } from '../metadata.ts';
import type { ClientMetadataDocuments } from './client-metadata-documents.ts';
import { secretDigest } from './clients.ts';
import { ttlThatSetsValue } from './extensions.ts';
import type { GrantModels } from './grant-models.ts';
import { approvedGrantId, interactionPrompts } from './authorization-request.ts';
import type { introspection } from './introspection.ts';
import { dpopFeature } from './dpop.ts';
import type { RedirectPolicy } from './redirect-uris.ts';
import { mapStoreErrors } from './errors.ts';
import { registration } from './registration.ts';
import type { resourceIndicators } from './resource-indicators.ts';
import { DPOP_ALGORITHMS } from '../../dpop/proof.ts';
import type { CookieSignatures } from '../../keys/cookie-signatures.ts';
import { SIGNING_ALGORITHM } from '../../keys/signing-keys.ts';

export type ConfigurationOptions = {
  documents: ClientMetadataDocuments;
  redirectPolicy: RedirectPolicy;
  adapter: (model: string) => Adapter;
  signingKeys: readonly JWK[];
  cookieKeys: CookieSignatures;
  nonceKey: KeyObject;
  /** Adds the `__Host-` and `__Secure-` cookie prefixes (RFC 6265bis section 4.1.3). */
  isHttps: boolean;
  createTokenValue: GrantModels['createTokenValue'];
  resourceIndicators: ReturnType<typeof resourceIndicators>;
  introspection: ReturnType<typeof introspection>;
  readAccount: (id: string) => Promise<Account | undefined>;
  preRegistered: readonly { id: string; name: string; redirectUris: string[]; secret?: string }[];
  introspectionClients: readonly { id: string; secret: string }[];
  /** The pre-registered clients that may use ID-JAG. */
  idJagClients: ReadonlySet<string>;
  /** In seconds. */
  ttl: {
    accessToken: number;
    refreshTokenIdle: number;
    refreshTokenAbsolute: number;
    session: number;
    code: number;
    interaction: number;
  };
  renderError: (ctx: Koa.Context, out: ErrorOut, error: Error) => Promise<void>;
};

const GRANT_TYPES = ['authorization_code', 'refresh_token'];

export const COOKIE = { signed: true, httpOnly: true, sameSite: 'lax', overwrite: true } as const;

export function configuration(options: ConfigurationOptions): Configuration {
  const { ttl, createTokenValue, documents } = options;
  return {
    adapter: options.adapter,
    jwks: { keys: options.signingKeys as NonNullable<Configuration['jwks']>['keys'] },
    clients: [
      ...options.preRegistered.map((client) =>
        preRegisteredClient(client, options.idJagClients.has(client.id)),
      ),
      ...options.introspectionClients.map(resourceServerClient),
    ],
    clientDefaults: {
      id_token_signed_response_alg: SIGNING_ALGORITHM,
      grant_types: [...GRANT_TYPES],
      response_types: ['code'],
      response_modes: ['query'],
    },
    clientAuthMethods: [...CLIENT_AUTH_METHODS],
    enabledJWA: { dPoPSigningAlgValues: [...DPOP_ALGORITHMS] },
    responseTypes: ['code'],
    scopes: [...LEVELS, OFFLINE_ACCESS],
    pkce: { required: () => true },
    allowOmittingSingleRegisteredRedirectUri: false,
    acceptQueryParamAccessTokens: false,
    clientBasedCORS: () => true,
    routes: ENDPOINTS,
    cookies: {
      keys: options.cookieKeys,
      names: cookieNames(options.isHttps),
      long: COOKIE,
      short: COOKIE,
    },
    fetch: documents.fetch as Configuration['fetch'],
    fetchResponseBodyLimits: { 'client_id metadata document': Infinity },
    features: {
      ...SWITCHED_OFF,
      registration: registration(options.redirectPolicy),
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
      dPoP: dpopFeature(options.nonceKey),
    } as Configuration['features'],
    interactions: {
      policy: interactionPrompts(ttl.session),
      url: (_ctx, interaction) => `/interaction/${interaction.uid}`,
    },
    findAccount: mapStoreErrors(async (_ctx: unknown, id: string) => {
      const account = await options.readAccount(id);
      if (!account || account.disabledAt !== undefined) return undefined;
      const { overBefore } = account;
      return { accountId: id, claims: () => ({ sub: id }), overBefore };
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
    extraTokenClaims: (_ctx, token) => ({
      grant_id: 'grantId' in token ? token.grantId : undefined,
    }),
    formats: { customizers: { jwt: setScopeAndConnector } },
    ttl: {
      AccessToken: (ctx) => accessTokenTtl(ctx, ttl.accessToken),
      AuthorizationCode: ttlThatSetsValue('AuthorizationCode', ttl.code, createTokenValue),
      RefreshToken: ttlThatSetsValue('RefreshToken', ttl.refreshTokenIdle, createTokenValue),
      Grant: ttl.refreshTokenAbsolute,
      Session: ttl.session,
      Interaction: ttl.interaction,
    },
    renderError: options.renderError,
  } as Configuration;
}

const SWITCHED_OFF = {
  devInteractions: { enabled: false },
  pushedAuthorizationRequests: { enabled: false },
  rpInitiatedLogout: { enabled: false },
  userinfo: { enabled: false },
};

/** The session cookie has the path `/`, the others the paths of their interaction. */
function cookieNames(isHttps: boolean) {
  const [host, secure] = isHttps ? ['__Host-', '__Secure-'] : ['', ''];
  return {
    session: `${host}gatehouse-session`,
    interaction: `${secure}gatehouse-interaction`,
    resume: `${secure}gatehouse-resume`,
  };
}

function preRegisteredClient(
  { id, name, redirectUris, secret }: ConfigurationOptions['preRegistered'][number],
  allowsIdJag: boolean,
) {
  return {
    grant_types: allowsIdJag ? [...GRANT_TYPES, JWT_BEARER] : [...GRANT_TYPES],
    client_id: id,
    client_name: name,
    redirect_uris: redirectUris,
    application_type: 'native' as const,
    token_endpoint_auth_method:
      secret === undefined ? ('none' as const) : ('client_secret_basic' as const),
    ...(secret === undefined ? {} : { client_secret: secretDigest(secret) }),
  };
}

/** A resource server may only introspect tokens. */
function resourceServerClient({
  id,
  secret,
}: ConfigurationOptions['introspectionClients'][number]) {
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

/** The scope of an access token is its one level (RFC 9068 section 2.2.3). `connector` is the id in its connect link. */
function setScopeAndConnector(
  _ctx: unknown,
  token: object,
  jwt: { payload: Record<string, unknown> },
): void {
  const { payload } = jwt;
  payload.scope = highestLevelIn(String(payload.scope ?? ''));
  if ('aud' in token) payload.connector = String(token.aud).split('/').at(-2);
}
