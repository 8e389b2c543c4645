// Creates the engine: oidc-provider with our store, policy and pages.
import { type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import type Koa from 'koa';
import compose from 'koa-compose';
import { type KoaContextWithOIDC, Provider } from 'oidc-provider';
import { ACCOUNTS_CHANNEL, findAccount } from '../../people/accounts.ts';
import { accessThrough } from '../../people/entitlement.ts';
import { MACHINES_CHANNEL } from '../../clients/machines.ts';
import { CONNECTORS_CHANNEL, findConnector } from '../../links/connectors.ts';
import { openUseRecorder } from '../../links/use-recorder.ts';
import type { IdentityProviders } from '../../sign-in/provider.ts';
import { grantLifetimes, type Lifetimes } from '../../connections/grant-lifetime.ts';
import { findGrant, grantKey } from '../../connections/grants.ts';
import { limitFailedAttempts } from '../../http/failed-attempts.ts';
import type { CookieSignatures } from '../../keys/cookie-signatures.ts';
import { SIGNING_ALGORITHM, type SigningKeyRing } from '../../keys/signing-keys.ts';
import type { Services } from '../../services.ts';
import { listedRedirects } from '../../settings/apps.ts';
import { isRedirectPattern } from '../../settings/redirect-uri.ts';
import type { Settings } from '../../settings/settings.ts';
import { cachedReader } from '../../store/cached-reader.ts';
import { defaultResource } from './authorization-request.ts';
import { createAdapter, namedByInteraction, readBrowserAhead } from './adapter.ts';
import {
  clientMetadataDocuments,
  documentCopies,
  type DocumentFetching,
  FETCH_LIMITS,
} from './client-metadata-documents.ts';
import { clientCredentialsGrantType } from './client-credentials.ts';
import { type Clients, registeredClients } from './clients.ts';
import { assertionAudiences, keyLoader } from './client-keys.ts';
import { configuration } from './configuration.ts';
import { INTERNET } from '../../http/guarded-request.ts';
import { requireAddressGuard } from './guarded-fetch.ts';
import { engineRequest, finishWrites, startReading } from './engine-request.ts';
import { mapStoreErrors, respondWithError } from './errors.ts';
import { grantEvents, logRefusals } from './events.ts';
import {
  authenticateByKeys,
  findClientOfWorkloads,
  compareByDigest,
  replaceParameters,
  rotateSessionAtSignIn,
} from './extensions.ts';
import { grantModels } from './grant-models.ts';
import type { AccessTokenClaims, GrantModelOptions } from './models/options.ts';
import { idJagGrantType } from './id-jag.ts';
import { asWorkload, WORKLOAD_CLIENT, workloadExchange } from './workloads.ts';
import { introspection } from './introspection.ts';
import { rechecks } from './recheck.ts';
import type { RedirectPolicy } from './redirect-uris.ts';
import {
  readConnectorAhead,
  resourceIndicators,
  type TokenPolicy,
  validateTokenRequest,
} from './resource-indicators.ts';

export type EngineOptions = {
  signingKeys: SigningKeyRing;
  cookieKeys: CookieSignatures;
  documentFetching: DocumentFetching | undefined;
  identityProviders: IdentityProviders;
};

export type Engine = {
  /** The current provider. Do not keep it: it is replaced when the signing keys change. */
  provider: () => Provider;
  middleware: Koa.Middleware;
  /** Starts the reads of a request whose browser, client or grant is known, before `middleware` needs them one after the other. */
  readAhead: (ctx: Koa.Context, known: KnownAhead) => void;
  /** Starts to read a registered client. Its cache keeps it. */
  readClientAhead: (id: string) => void;
  redirectPolicy: RedirectPolicy;
  grantLifetimes: Lifetimes;
  touchClient: Clients['touch'];
  /** Resolves when all pending writes are done. */
  close: () => Promise<void>;
};

/** Ids that the request has named so far. */
export type KnownAhead = { client?: unknown; interaction?: string; grant?: string };

const CACHE_SECONDS = 10;

export async function openEngine(
  settings: Settings,
  services: Services,
  { signingKeys, cookieKeys, documentFetching, identityProviders }: EngineOptions,
): Promise<Engine> {
  const { store, logger, metrics, auditLog, rateLimits, now } = services;
  const lifetimes = grantLifetimes(settings.lifetimes);
  const policy = await tokenPolicy(settings, services);
  const { forwardProxy } = settings;
  const network = { ...INTERNET, forwardProxy, ...documentFetching?.network };
  await requireAddressGuard(network);
  const copies = documentCopies(store, settings.lifetimes, now);
  const preRegistered = new Set(settings.clients.preRegistered.map(({ id }) => id));
  const redirectPolicy = redirectPolicyOf(settings);
  const clients = registeredClients({
    store,
    lifetimes: settings.lifetimes,
    now,
    redirectPolicy,
    touchDocument: copies.touch,
    preRegistered,
  });
  await store.subscribe(MACHINES_CHANNEL, clients.drop);
  const uses = openUseRecorder(store, (error) =>
    logger.error({ err: error, what: 'use' }, 'a task after the token response failed'),
  );
  const people = rechecks(settings, services, { identityProviders, policy });
  const grants = grantModels({
    store,
    settings,
    tokenKeys: store.keyRing('codes and refresh tokens'),
    lifetimes,
    now,
    validateTokenRequest: (ctx, granted) => validateTokenRequest(policy, ctx, granted),
    recheckPerson: people.recheckPerson,
    verifyAccessToken: accessTokenVerifier(settings.authUrl, signingKeys.verificationKeys),
    ...grantEvents({
      store,
      logger,
      metrics,
      auditLog,
      clients,
      uses,
      now,
      addresses: settings.audit.addresses,
      attempts: services.attempts,
    }),
  });
  const documents = clientMetadataDocuments({
    copies,
    redirectPolicy,
    pinned: settings.clients.metadataDocuments,
    hosts: settings.clients.metadataDocumentHosts,
    isClosed: settings.clients.registration === 'closed',
    trusted: new Set(settings.authorization.trustedIssuers.flatMap((issuer) => issuer.clients)),
    network,
    limits: { ...FETCH_LIMITS, ...documentFetching?.limits },
    rateLimit: rateLimits.documents,
    now,
  });
  const loadKeys = keyLoader({
    network,
    limits: { ...FETCH_LIMITS, ...documentFetching?.limits },
    rateLimit: rateLimits.documents,
    now,
  });
  const exchangeWorkload = workloadExchange({ settings, services, policy, uses });
  const addIdJag = idJagGrantType({ settings, services, policy, uses }, exchangeWorkload);
  const addClientCredentials = clientCredentialsGrantType({ settings, services, policy });
  const resources = resourceIndicators(policy, () => signingKeys.current().jwk.kid);
  const guardSecrets = limitFailedAttempts(rateLimits.wrongSecrets);
  const adapter = createAdapter(store, grants.models, clients);
  const makeProvider = () => {
    const provider = new Provider(
      settings.authUrl,
      configuration(settings, services, {
        redirectPolicy,
        adapter,
        signingKeys: signingKeys.all().map(({ jwk }) => jwk),
        documents,
        introspection: introspection(policy, settings.authorization.introspectionClients),
        cookieKeys,
        createTokenValue: grants.createTokenValue,
        resourceIndicators: resources,
        readAccount: policy.readAccount,
      }),
    );
    addIdJag(provider, resources.getResourceServerInfo);
    addClientCredentials(provider, resources.getResourceServerInfo);
    replaceParameters(provider, exchangeWorkload && asWorkload);
    findClientOfWorkloads(provider, WORKLOAD_CLIENT);
    rotateSessionAtSignIn(provider);
    compareByDigest(provider, guardSecrets);
    authenticateByKeys(provider, loadKeys, assertionAudiences(settings.authUrl));
    logRefusals(provider, logger);
    return { provider, middleware: compose(provider.middleware) as Koa.Middleware };
  };
  const readClientAhead = (id: string) => {
    if (!preRegistered.has(id)) void clients.model.find?.(id).catch(() => undefined);
  };
  let current = makeProvider();
  // A provider cannot change its keys, so new keys need a new provider. Requests in progress finish in the old one.
  const ignoreKeys = signingKeys.onChange(() => {
    current = makeProvider();
  });
  return {
    provider: () => current.provider,
    async middleware(ctx, next) {
      const { provider, middleware } = current;
      await middleware(ctx, next);
      await finishWrites(ctx);
      await grants.redeem(ctx as KoaContextWithOIDC).catch((error: unknown) => {
        respondWithError(ctx, error);
        provider.emit('grant.error', ctx, error);
      });
    },
    readAhead(ctx, { client, grant, ...known }) {
      const session = ctx.cookies.get(current.provider.cookieName('session'), { signed: true });
      const request = engineRequest(ctx);
      readBrowserAhead(store, request, { session, ...known });
      const { resource, account } = namedByInteraction(known.interaction ?? '');
      if (resource) readConnectorAhead(policy, request, resource);
      if (grant !== undefined)
        startReading(request, grantKey(grant), () => findGrant(store, grant));
      if (typeof client === 'string') readClientAhead(client);
      // Its cache keeps it.
      if (account !== undefined) policy.readAccount(account).catch(() => undefined);
    },
    readClientAhead,
    redirectPolicy,
    grantLifetimes: lifetimes,
    touchClient: clients.touch,
    async close() {
      ignoreKeys();
      await Promise.all([uses.close(), people.close()]);
    },
  };
}

/** Caches connectors and accounts briefly, because every refresh needs both. */
async function tokenPolicy(settings: Settings, { store, now }: Services): Promise<TokenPolicy> {
  const freshness = { freshFor: CACHE_SECONDS, staleIfErrorFor: CACHE_SECONDS, now };
  const connectors = cachedReader((id) => findConnector(store, id), freshness);
  const accounts = cachedReader((id) => findAccount(store, id), freshness);
  await store.subscribe(CONNECTORS_CHANNEL, connectors.drop);
  await store.subscribe(ACCOUNTS_CHANNEL, accounts.drop);
  return {
    resourceUrl: settings.resourceUrl,
    settings,
    now,
    readConnector: connectors.read,
    refreshConnector: connectors.refresh,
    readAccount: accounts.read,
    refreshAccount: accounts.refresh,
    defaultLink: mapStoreErrors(() =>
      defaultResource({
        store,
        now,
        settings,
        resourceUrl: settings.resourceUrl,
        defaultConnector: settings.authorization.defaultConnector,
      }),
    ),
    accessOf: (account, connector, via) => accessThrough(settings, connector, account, via),
  };
}

function redirectPolicyOf({
  authUrl,
  resourceUrl,
  managementUrl,
  developmentIdp,
  clients,
  authorization,
}: Settings): RedirectPolicy {
  let read: Pick<RedirectPolicy, 'allowed' | 'patterns'> | undefined;
  // When the first client needs it, because the catalogue of apps takes long to parse.
  const listed = () => {
    if (read) return read;
    const uris = listedRedirects(clients);
    const allowed = new Set(uris.filter((uri) => !isRedirectPattern(uri)));
    read = { allowed, patterns: uris.filter(isRedirectPattern) };
    return read;
  };
  return {
    acceptsDevices: authorization.deviceGrant,
    get allowed() {
      return listed().allowed;
    },
    get patterns() {
      return listed().patterns;
    },
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
