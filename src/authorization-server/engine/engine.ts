// Creates the engine: oidc-provider with our store, policy and pages.
import { type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import type Koa from 'koa';
import compose from 'koa-compose';
import { Provider, type ErrorOut } from 'oidc-provider';
import type { KeyObject } from 'node:crypto';
import type { Logger } from 'pino';
import { accountLifetime } from '../../accounts/account.ts';
import { ACCOUNTS_CHANNEL, findAccount } from '../../accounts/accounts.ts';
import { entitledLevel } from '../../accounts/entitlement.ts';
import { CONNECTORS_CHANNEL, findConnector } from '../../connectors/connectors.ts';
import { openUseRecorder } from '../../connectors/use-recorder.ts';
import { grantLifetimes, type Lifetimes } from '../../grants/grant-lifetime.ts';
import type { RateLimit } from '../../http/rate-limits.ts';
import type { AttemptLimiter } from '../../http/failed-attempts.ts';
import type { CookieSignatures } from '../../keys/cookie-signatures.ts';
import { SIGNING_ALGORITHM, signingKey, type SigningKeyRing } from '../../keys/signing-keys.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { OFFLINE_ACCESS } from '../../permission-level.ts';
import type { Settings } from '../../settings/settings.ts';
import { cachedReader } from '../../store/cached-reader.ts';
import type { Store } from '../../store/store.ts';
import { ENDPOINTS } from '../metadata.ts';
import { createAdapter } from './adapter.ts';
import {
  clientMetadataDocuments,
  documentCopies,
  type DocumentFetching,
  FETCH_LIMITS,
} from './client-metadata-documents.ts';
import { registeredClients } from './clients.ts';
import { configuration } from './configuration.ts';
import { INTERNET, requireAddressGuard } from './guarded-fetch.ts';
import { grantEvents, logRefusals } from './events.ts';
import { compareByDigest, presentJwtsAsOpaque } from './extensions.ts';
import { type AccessTokenClaims, type GrantModelOptions, grantModels } from './grant-models.ts';
import { idJagGrantType } from './id-jag.ts';
import { introspection } from './introspection.ts';
import type { RedirectPolicy } from './redirect-uris.ts';
import {
  resourceIndicators,
  type TokenPolicy,
  validateTokenRequest,
} from './resource-indicators.ts';

export type EngineOptions = {
  settings: Settings;
  store: Store;
  logger: Logger;
  metrics: Metrics;
  cookieKeys: CookieSignatures;
  tokenKeys: readonly KeyObject[];
  accountKey: KeyObject;
  /** Makes nonces for DPoP proofs. */
  nonceKey: KeyObject;
  signingKeys: SigningKeyRing;
  renderError: (ctx: Koa.Context, out: ErrorOut, error: Error) => Promise<void>;
  guardSecrets: AttemptLimiter;
  documentLimit: RateLimit;
  now: () => number;
  documentFetching?: DocumentFetching;
};

export type Engine = {
  /** The current provider. Do not keep it: it is replaced when the signing keys change. */
  provider: () => Provider;
  middleware: Koa.Middleware;
  redirectPolicy: RedirectPolicy;
  grantLifetimes: Lifetimes;
  prolongClient: (id: string) => Promise<void>;
  /** Resolves when all pending writes are done. */
  close: () => Promise<void>;
};

/** Lifetime of the sign-in step and of the consent step. */
const INTERACTION_SECONDS = 900;
const CACHE_SECONDS = 10;

export async function openEngine(options: EngineOptions): Promise<Engine> {
  const { settings, store, logger, metrics, signingKeys, now } = options;
  const lifetimes = grantLifetimes(settings.lifetimes);
  const policy = await tokenPolicy(options);
  const network = { ...INTERNET, ...options.documentFetching?.network };
  await requireAddressGuard(network);
  const copies = documentCopies(store, settings.lifetimes, now);
  const preRegistered = new Set(settings.clients.preRegistered.map(({ id }) => id));
  const clients = registeredClients(store, settings.lifetimes, now, copies.touch, preRegistered);
  const uses = openUseRecorder(store, (error) =>
    logger.error({ err: error, what: 'use' }, 'a task after the token response failed'),
  );
  const grants = grantModels({
    store,
    tokenKeys: options.tokenKeys,
    lifetimes,
    now,
    validateTokenRequest: (ctx, granted) => validateTokenRequest(policy, ctx, granted),
    refreshTokenFollows: (_ctx, code) =>
      String(code.scope ?? '')
        .split(' ')
        .includes(OFFLINE_ACCESS),
    verifyAccessToken: accessTokenVerifier(settings.authUrl, signingKeys.verificationKeys),
    ...grantEvents({ store, logger, metrics, clients, uses, now }),
  });
  const redirectPolicy = redirectPolicyOf(settings);
  const documents = clientMetadataDocuments({
    copies,
    redirectPolicy,
    pinned: settings.clients.metadataDocuments,
    hosts: settings.clients.metadataDocumentHosts,
    network,
    limits: { ...FETCH_LIMITS, ...options.documentFetching?.limits },
    rateLimit: options.documentLimit,
    now,
  });
  const addIdJag = idJagGrantType({
    store,
    metrics,
    policy,
    uses,
    now,
    authUrl: settings.authUrl,
    tokenEndpoint: settings.authUrl + ENDPOINTS.token,
    nonceKey: options.nonceKey,
    issuers: settings.authorization.trustedIssuers,
    accountKey: options.accountKey,
    accountLifetime: accountLifetime(settings),
    lifetimes,
    grantLifetime: settings.lifetimes.refreshTokenAbsolute,
  });
  const resources = resourceIndicators(policy, () => signingKey(signingKeys.all(), now()).jwk.kid);
  const adapter = createAdapter(store, grants.models, clients);
  const makeProvider = () => {
    const provider = new Provider(
      settings.authUrl,
      configuration({
        redirectPolicy,
        adapter,
        signingKeys: signingKeys.all().map(({ jwk }) => jwk),
        documents,
        preRegistered: settings.clients.preRegistered,
        introspectionClients: settings.authorization.introspectionClients,
        introspection: introspection(policy, settings.authorization.introspectionClients),
        cookieKeys: options.cookieKeys,
        nonceKey: options.nonceKey,
        isHttps: settings.authUrl.startsWith('https:'),
        createTokenValue: grants.createTokenValue,
        resourceIndicators: resources,
        idJagClients: new Set(
          settings.authorization.trustedIssuers.flatMap(({ clients: ids }) => ids),
        ),
        readAccount: policy.readAccount,
        ttl: { ...settings.lifetimes, code: lifetimes.code, interaction: INTERACTION_SECONDS },
        renderError: options.renderError,
      }),
    );
    addIdJag(provider, resources.getResourceServerInfo);
    presentJwtsAsOpaque(provider);
    compareByDigest(provider, options.guardSecrets);
    logRefusals(provider, logger);
    return { provider, middleware: compose(provider.middleware) as Koa.Middleware };
  };
  let current = makeProvider();
  // A provider cannot change its keys, so new keys need a new provider. Requests in progress finish in the old one.
  signingKeys.onChange(() => {
    current = makeProvider();
  });
  return {
    provider: () => current.provider,
    middleware: (ctx, next) => current.middleware(ctx, next),
    redirectPolicy,
    grantLifetimes: lifetimes,
    prolongClient: clients.touch,
    close: uses.close,
  };
}

/** Caches connectors and accounts briefly, because every refresh needs both. */
async function tokenPolicy({ settings, store, now }: EngineOptions): Promise<TokenPolicy> {
  const freshness = { freshFor: CACHE_SECONDS, staleIfErrorFor: CACHE_SECONDS, now };
  const connectors = cachedReader((id) => findConnector(store, id), freshness);
  const accounts = cachedReader((id) => findAccount(store, id), freshness);
  await store.subscribe(CONNECTORS_CHANNEL, connectors.drop);
  await store.subscribe(ACCOUNTS_CHANNEL, accounts.drop);
  return {
    resourceUrl: settings.resourceUrl,
    now,
    readConnector: connectors.read,
    refreshConnector: connectors.refresh,
    readAccount: accounts.read,
    refreshAccount: accounts.refresh,
    levelOf: (account, via) => entitledLevel(account, settings.entitlements, via),
  };
}

function redirectPolicyOf({
  authUrl,
  resourceUrl,
  managementUrl,
  developmentIdp,
  clients,
}: Settings): RedirectPolicy {
  return {
    allowed: new Set([...clients.hostedCallbacks, ...clients.allowedRedirects]),
    ownOrigins: new Set([
      authUrl,
      resourceUrl,
      managementUrl,
      ...(developmentIdp ? [developmentIdp.url] : []),
    ]),
  };
}

function accessTokenVerifier(
  issuer: string,
  keys: JWTVerifyGetKey,
): GrantModelOptions['verifyAccessToken'] {
  return async (jwt): Promise<AccessTokenClaims | undefined> => {
    const verified = await jwtVerify(jwt, keys, {
      issuer,
      typ: 'at+jwt',
      algorithms: [SIGNING_ALGORITHM],
    }).catch(() => undefined);
    return verified && claimsOf(verified.payload);
  };
}

function claimsOf({ jti, iat, exp, sub, aud, ...rest }: JWTPayload): AccessTokenClaims | undefined {
  const { grant_id: grantId, client_id: clientId, scope, cnf } = rest;
  if (!jti || !iat || !exp || !sub || typeof aud !== 'string' || typeof scope !== 'string')
    return undefined;
  if (typeof grantId !== 'string' || typeof clientId !== 'string') return undefined;
  const { jkt } = (cnf ?? {}) as { jkt?: string };
  const claims = { jti, iat, exp, accountId: sub, clientId, grantId, aud, scope };
  return jkt === undefined ? claims : { ...claims, jkt };
}
