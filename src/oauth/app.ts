import { Router } from '@koa/router';
import type Koa from 'koa';
import { accountLifetime, sessionLifetime } from '../people/account.ts';
import { hasAnyAccess } from '../people/entitlement.ts';
import { allowAnyOrigin } from '../http/cors.ts';
import { homeValues } from '../pages/home.ts';
import { HttpError } from '../http/errors.ts';
import { createHost, respondWithText } from '../http/host.ts';
import { prefersPage } from '../http/prefers-page.ts';
import { PROBE_PURPOSE } from '../http/proxy-probe.ts';
import { withinLimit } from '../http/rate-limits.ts';
import { requireNavigation } from '../http/fetch-metadata.ts';
import { cookieSignatures } from '../keys/cookie-signatures.ts';
import { keyRing } from '../keys/key-ring.ts';
import type { Services } from '../services.ts';
import type { Settings } from '../settings/settings.ts';
import { backchannelLogout } from './backchannel-logout.ts';
import { clientEndpoints } from './client-endpoints.ts';
import { pageInsteadOfRedirect, pageInsteadOfScript } from './engine/authorization-errors.ts';
import {
  canonicalAuthorizationRequest,
  limitAuthorizationRequest,
} from './engine/authorization-request.ts';
import type { DocumentFetching } from './engine/client-metadata-documents.ts';
import { openEngine } from './engine/engine.ts';
import { hasEmptyPort, isOwnOrigin } from './engine/redirect-uris.ts';
import { respondToError } from './error-page.ts';
import { recordAttempts } from './attempts.ts';
import { recordFlowMetrics } from './flow-metrics.ts';
import { openIdentityProviders } from '../sign-in/provider.ts';
import { grantIdOf } from '../consent/token.ts';
import { recordConsentResult } from '../consent/resubmission.ts';
import { CALLBACK_PATH } from '../consent/callback-path.ts';
import { type InteractionContext, requireResumeCookie } from '../consent/interaction.ts';
import { recordRefusals } from '../consent/refusals.ts';
import { credentialPages } from '../consent/credentials.ts';
import { devicePages } from '../consent/device.ts';
import { accountPage } from '../consent/account-page.ts';
import { interactions } from '../consent/router.ts';
import { authorizationServerMetadata, DEVICE_PATH, ENDPOINTS, METADATA_PATH } from './metadata.ts';

/** `close` resolves after pending writes have finished. */
export type AuthorizationServer = { app: Koa; close: () => Promise<void> };

/** Only tests set `documentFetching`. */
export async function authorizationServer(
  settings: Settings,
  services: Services,
  documentFetching?: DocumentFetching,
): Promise<AuthorizationServer> {
  const { store, pages, metrics, auditLog, rateLimits, keys, now } = services;
  const { signing: signingKeys } = keys;
  if (!signingKeys) throw new Error('the authorization server needs the signing keys');
  const cookieKeys = cookieSignatures(store.keyRing('cookies'));
  const { identityProviders: providers, entitlements, management } = settings;
  const identityProviders = await services.keep(
    `identity providers ${JSON.stringify([providers, entitlements, management.administrators])}`,
    () => openIdentityProviders(settings, settings.authUrl + CALLBACK_PATH),
  );
  const engine = await openEngine(settings, services, {
    identityProviders,
    signingKeys,
    cookieKeys,
    documentFetching,
  });
  const app = createHost({
    ...services,
    name: 'authorization-server',
    url: settings.authUrl,
    proxies: settings.proxies,
    probeKeys: keyRing(settings, PROBE_PURPOSE),
    respondToError: respondToError(pages),
    assets: pages.middleware,
  });
  app.use(recordFlowMetrics(metrics));
  app.keys = cookieKeys;
  const context: InteractionContext = {
    settings,
    services,
    engine,
    site: {
      store,
      logger: services.logger,
      metrics,
      auditLog,
      pages,
      now,
      identityProviders,
      isHttps: settings.authUrl.startsWith('https:'),
      accountKey: keys.accountIds,
      accountLifetime: accountLifetime(settings),
      sessionLifetime: sessionLifetime(settings),
      hasSharedCallback: true,
      rateLimits: services.rateLimits,
      mayHaveAccess: (account) => hasAnyAccess(settings, account),
    },
  };
  app.use(recordAttempts(services));
  app.use(recordRefusals(context));
  app.use(interactions(context));
  app.use(accountPage(context));
  app.use(credentialPages(context));
  const router = new Router({ sensitive: true, strict: true });
  router.get('/', async (ctx) => {
    const { authUrl: issuer } = settings;
    if (prefersPage(ctx)) return pages.render(ctx, 'home', homeValues(settings));
    ctx.set('Cache-Control', 'no-store');
    ctx.body = { issuer, metadata: issuer + METADATA_PATH };
  });
  const { trustedIssuers } = settings.authorization;
  const introspects = settings.authorization.introspectionClients.length > 0;
  const acceptsDevices = settings.authorization.deviceGrant;
  const registers = settings.clients.registration !== 'closed';
  documents(
    router,
    authorizationServerMetadata(settings.authUrl, {
      levels: settings.levels,
      introspects,
      acceptsDevices,
      acceptsAssertions: trustedIssuers.some(({ clients }) => clients.length > 0),
      acceptsWorkloads: trustedIssuers.some(({ workloads }) => workloads.length > 0),
      registers,
      acceptsDocuments: acceptsDocuments(settings),
      languages: pages.languages,
    }),
    signingKeys.publicJwks,
  );
  authorization(router, context);
  if (acceptsDevices) devicePages(router, context);
  backchannelLogout(router, context);
  clientEndpoints(router, {
    engine: engine.middleware,
    introspects,
    registers,
    deviceUrl: acceptsDevices ? settings.authUrl + DEVICE_PATH : undefined,
    levels: settings.levels,
    rateLimits,
    audit: services,
    resourceUrl: settings.resourceUrl,
  });
  app.use(router.routes());
  app.use(router.allowedMethods());
  return { app, close: engine.close };
}

/** An empty list accepts no document; without a list, the mode decides. */
function acceptsDocuments({ clients }: Settings): boolean {
  const { registration, metadataDocuments, metadataDocumentHosts } = clients;
  if (metadataDocuments.length > 0) return true;
  return metadataDocumentHosts ? metadataDocumentHosts.length > 0 : registration !== 'closed';
}

/** Public, cacheable documents: metadata (RFC 8414) and keys (RFC 7517). */
function documents(router: Router, metadata: object, publicJwks: () => object): void {
  const contents: Record<string, () => object> = {
    [METADATA_PATH]: () => metadata,
    [ENDPOINTS.jwks]: publicJwks,
  };
  for (const [path, content] of Object.entries(contents)) {
    router.options(path, allowAnyOrigin('GET'));
    router.get(path, allowAnyOrigin('GET'), (ctx) => {
      ctx.set('Cache-Control', 'public, max-age=300');
      respondWithText(ctx, content());
    });
  }
}

/** RFC 6749 section 4.1.1. */
function authorization(router: Router, context: InteractionContext): void {
  const { settings, services, engine } = context;
  const { store, pages, rateLimits, now } = services;
  const preRegistered = new Set(settings.clients.preRegistered.map(({ id }) => id));
  const refuseUnseen = requireNavigation('GET');
  /** Loopback redirect URIs match any port, including our own port and an empty one. */
  const refuseOwnRedirectUri: Koa.Middleware = (ctx, next) => {
    for (const uri of [ctx.query.redirect_uri ?? []].flat()) {
      const isOurs = isOwnOrigin(engine.redirectPolicy, uri);
      if (isOurs || hasEmptyPort(uri))
        throw new HttpError(400, 'invalid_redirect_uri', 'the redirect_uri is not allowed');
    }
    return next();
  };
  const canonicalRequest = canonicalAuthorizationRequest({
    store,
    now,
    settings,
    resourceUrl: settings.resourceUrl,
    stayConnected: settings.consent.stayConnected,
    ...settings.authorization,
  });
  /** Reads the connector, the client and the session while the request is counted. */
  const limitedWhilePreparing: Koa.Middleware = async (ctx, next) => {
    await withinLimit(rateLimits.authorizations, ctx, async () => {
      await refuseOwnRedirectUri(ctx, async () => {});
      engine.readAhead(ctx, { client: ctx.query.client_id });
      await canonicalRequest(ctx, async () => {});
    });
    return next();
  };
  const errorsAsPages = pageInsteadOfRedirect(pages, preRegistered);
  router.get(
    ENDPOINTS.authorization,
    refuseUnseen,
    limitAuthorizationRequest,
    limitedWhilePreparing,
    errorsAsPages,
    engine.middleware,
  );
  const readResumedAhead: Koa.Middleware = (ctx, next) => {
    const uid = String(ctx.params.uid);
    engine.readAhead(ctx, { interaction: uid, grant: grantIdOf(services.keys.forms, uid) });
    return next();
  };
  router.get(
    `${ENDPOINTS.authorization}/:uid`,
    refuseUnseen,
    requireResumeCookie(engine.provider),
    readResumedAhead,
    recordConsentResult(context),
    pageInsteadOfScript(pages),
    engine.middleware,
  );
}
