import { Router } from '@koa/router';
import type Koa from 'koa';
import { type Connector, isPaused } from '../links/connector.ts';
import { allowAnyOrigin, requireAllowedOrigin } from '../http/cors.ts';
import { homeValues } from '../pages/home.ts';
import { HttpError, notFound } from '../http/errors.ts';
import { createHost, respondWithText } from '../http/host.ts';
import { PROBE_PURPOSE } from '../http/proxy-probe.ts';
import { requestContext } from '../http/request-context.ts';
import { keyRing } from '../keys/key-ring.ts';
import type { VerificationKeys } from '../keys/signing-keys.ts';
import type { Services } from '../services.ts';
import type { Settings } from '../settings/settings.ts';
import { tokenRequired, tokenVerifier } from './authenticate.ts';
import { startCall } from './call.ts';
import { type CallAudit, callAudit } from './call-audit.ts';
import { callLimits } from './call-limits.ts';
import { dpopProofs } from './dpop.ts';
import { authorizationExtensions } from './extensions.ts';
import { heldBytes } from './held-bytes.ts';
import type { McpHandler, McpHandlers } from './mcp-handler.ts';
import { connectorMetadata, METADATA_PREFIX, rootMetadata } from './metadata.ts';
import { isVisit, respondToError, showConnectLink } from './pages.ts';
import { openRecordCache, type RecordCache } from './record-cache.ts';
import { type Gateway, requireConnector, serve } from './serve.ts';

export type ResourceServer = {
  app: Koa;
  /** Reads the tools of the operator's MCP servers, and logs what is wrong with them, unless the signal is aborted. */
  check: (signal: AbortSignal) => Promise<void>;
} & Pick<McpHandler, 'end' | 'follow' | 'renewStreams' | 'close'>;

export async function resourceServer(
  settings: Settings,
  services: Services,
  verificationKeys: VerificationKeys,
): Promise<ResourceServer> {
  const { pages, rateLimits, now } = services;
  const { authUrl, resourceUrl, upstreams } = settings;
  const { allowedOrigins, maxBodyBytes, heldBytes: limits } = settings.resourceServer;
  const records = await services.keep('records', (kept) => openRecordCache(kept.store, now));
  let changes = 0;
  const ignoreChanges = records.onChange(() => (changes += 1));
  const audit = callAudit({ settings, services, refusals: rateLimits.recordedRefusals });
  const handlers = await openMcpHandlers(settings, services, records, audit);
  const held = {
    ...limits,
    largest: Math.max(maxBodyBytes, ...upstreams.map((each) => each.maxAnswerBytes)),
  };
  const gateway: Gateway = {
    audit,
    limitCalls: callLimits(services),
    settings,
    services,
    records,
    changes: () => changes,
    authentication: {
      addresses: settings,
      settings,
      records,
      verifyToken: await services.keep(
        // A process without signing keys reads the published ones.
        `verified tokens, ${services.keys.signing ? 'signing' : 'published'} keys`,
        () => tokenVerifier({ issuer: authUrl, verificationKeys, now }),
      ),
      now,
      wrongTokens: rateLimits.wrongTokens,
    },
    requireDpopProof: dpopProofs(settings, services),
    handlerOf: handlers.serving,
    heldBytes: await services.keep(`bytes held ${JSON.stringify(held)}`, () => heldBytes(held)),
  };
  const app = createHost({
    ...services,
    name: 'resource-server',
    url: resourceUrl,
    proxies: settings.proxies,
    probeKeys: keyRing(settings, PROBE_PURPOSE),
    respondToError: respondToError(services, maxBodyBytes),
    assets: pages.middleware,
    defersHeaders: true,
  });
  const readConnector = (id: string) => requireConnector(gateway, id);
  const allowedOrigin = requireAllowedOrigin({
    allowed: new Set([authUrl, resourceUrl, ...allowedOrigins]),
    allowLoopback: !settings.production,
  });
  const serveVisit = async (ctx: Koa.Context, id: string) => {
    const connector = await readConnector(id);
    const refusal = tokenRequired(settings, connector);
    const { clients } = settings;
    const paused = isPaused(connector, settings);
    const visit = { resourceUrl, clients, connector, isPaused: paused, refusal };
    return showConnectLink(pages, ctx, visit);
  };
  app.use(function calls(ctx, next) {
    const [path, id] = CALL_PATH.exec(ctx.path) ?? [];
    if (path === undefined) return next();
    requestContext(ctx).route = id === undefined ? '/mcp' : '/connect/:connector/mcp';
    return allowedOrigin(ctx, () =>
      id !== undefined && isVisit(ctx) ? serveVisit(ctx, id) : serve(gateway, startCall(ctx, id)),
    );
  });
  const router = new Router({ sensitive: true, strict: true });
  metadataRoutes(router, settings, readConnector);
  router.get('/', async (ctx) => {
    if (!isVisit(ctx)) throw notFound();
    await pages.render(ctx, 'home', homeValues(settings));
  });
  app.use(router.routes());

  return {
    app,
    check: handlers.discover,
    end: handlers.end,
    follow(inForce) {
      gateway.authentication.settings = inForce;
      changes += 1;
      handlers.follow(inForce);
    },
    renewStreams: handlers.renewStreams,
    close() {
      ignoreChanges();
      return handlers.close();
    },
  };
}

/** Of a connect link, or of calls with minted tokens. Matched here, because a router takes longer than authentication. */
const CALL_PATH = /^\/(?:connect\/([^/]+)\/)?mcp$/;

/** One handler for each of the operator's own MCP servers, or the sample. Loads only the libraries of what it opens. */
async function openMcpHandlers(
  settings: Settings,
  services: Services,
  { onChange }: RecordCache,
  audit: CallAudit,
): Promise<McpHandlers> {
  const { upstreams, productName, levels } = settings;
  if (upstreams.length === 0) {
    const { version, logger } = services;
    const open = async () => {
      const { openSample } = await import('../development/sample/mcp-server.ts');
      return openSample({
        productName,
        levels,
        version,
        extensions: authorizationExtensions(settings),
        audit,
        logger,
      });
    };
    let sample: Promise<McpHandler> | undefined;
    return {
      // At the first call, because the MCP SDK takes a fifth of a start and 10 MB of memory.
      serving: () => (sample ??= open()),
      discover: async () => undefined,
      // The sample's responses take milliseconds, and no stream stays open.
      end: () => undefined,
      follow: () => undefined,
      renewStreams: () => undefined,
      close: async () => (await sample)?.close(),
    };
  }
  const { openUpstreamProxies } = await import('./upstream/proxies.ts');
  return openUpstreamProxies(settings, services, { onChange, audit });
}

/** Protected resource metadata (RFC 9728) of the server and of each connect link, including used-up links, for any web origin. */
function metadataRoutes(
  router: Router,
  settings: Settings,
  readConnector: (id: string) => Promise<Connector>,
): void {
  const connectorPath = `${METADATA_PREFIX}/connect/:connector/mcp`;
  router.options([METADATA_PREFIX, connectorPath], allowAnyOrigin('GET'));
  router.get(METADATA_PREFIX, allowAnyOrigin('GET'), (ctx) => {
    respondWithMetadata(ctx, rootMetadata(settings, settings.productName));
  });
  router.get(connectorPath, allowAnyOrigin('GET'), async (ctx) => {
    const connector = await readConnector(String(ctx.params.connector)).catch((error: unknown) => {
      throw error instanceof HttpError && error.status === 410
        ? new HttpError(404, 'not_found', error.message)
        : error;
    });
    respondWithMetadata(ctx, connectorMetadata(settings, connector));
  });
}

function respondWithMetadata(ctx: Koa.Context, document: Record<string, unknown>): void {
  ctx.set('Cache-Control', 'public, max-age=300');
  respondWithText(ctx, document);
}
