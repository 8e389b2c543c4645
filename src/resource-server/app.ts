import { Router } from '@koa/router';
import type { JWTVerifyGetKey } from 'jose';
import type Koa from 'koa';
import { type Connector, connectorState } from '../connectors/connector.ts';
import { allowAnyOrigin, requireAllowedOrigin } from '../http/cors.ts';
import { HttpError, notFound } from '../http/errors.ts';
import { createHost } from '../http/host.ts';
import { PROBE_PURPOSE } from '../http/proxy-probe.ts';
import { keyRing } from '../keys/key-ring.ts';
import { recordUse } from '../minted-tokens/minted-tokens.ts';
import type { Services } from '../services.ts';
import type { Settings } from '../settings/settings.ts';
import { authenticate, authenticateMintedToken, tokenVerifier } from './authenticate.ts';
import { requireLevel } from './authorize.ts';
import { callAuditor } from './call-audit.ts';
import { dpopProofs } from './dpop.ts';
import { readBody, respondWithJsonRpcError } from './json-rpc.ts';
import type { McpHandler } from './mcp-handler.ts';
import { connectorMetadata, METADATA_PREFIX, rootMetadata } from './metadata.ts';
import { openRecordCache, type RecordCache } from './record-cache.ts';
import { openSample } from './sample/mcp-server.ts';
import { openUpstreamProxy } from './upstream/proxy.ts';

export type ResourceServer = {
  app: Koa;
  /** Logs what is wrong with the operator's MCP server, unless the signal is aborted. */
  check: (signal: AbortSignal) => Promise<void>;
} & Pick<McpHandler, 'end' | 'close'>;

export async function resourceServer(
  settings: Settings,
  services: Services,
  verificationKeys: JWTVerifyGetKey,
): Promise<ResourceServer> {
  const { store, rateLimits, now } = services;
  const records = await openRecordCache(store, now);
  const mcp = openMcpHandler(settings, services, records);
  const app = createHost({
    ...services,
    name: 'resource-server',
    url: settings.resourceUrl,
    proxies: settings.proxies,
    probeKeys: keyRing(settings, PROBE_PURPOSE),
    respondToError: respondWithJsonRpcError,
  });
  const authentication = {
    addresses: settings,
    records,
    verifyToken: tokenVerifier({ issuer: settings.authUrl, verificationKeys, now }),
    wrongTokens: rateLimits.wrongTokens,
  };
  const requireDpopProof = dpopProofs(settings, services);
  const { allowedOrigins, maxBodyBytes, upstream } = settings.resourceServer;
  const allowedOrigin = requireAllowedOrigin({
    allowed: new Set([settings.authUrl, settings.resourceUrl, ...allowedOrigins]),
    allowLoopback: !settings.production,
  });
  const readOptions = { limit: maxBodyBytes, keepBigIntegers: upstream !== undefined };
  const readConnector = async (id: string) =>
    requireUsableConnector(await records.readConnector(id), now());

  const router = new Router({ sensitive: true, strict: true });
  metadataRoutes(router, settings, readConnector);
  router.all('/connect/:connector/mcp', allowedOrigin, async (ctx) => {
    const connector = await readConnector(String(ctx.params.connector));
    const caller = await authenticate(authentication, ctx, connector);
    await requireDpopProof(ctx, connector, caller);
    const body = ctx.method === 'POST' ? await readBody(ctx, readOptions) : undefined;
    requireLevel(settings, connector, caller, mcp.requiredLevel(body));
    const revalidate = async () =>
      authenticate(authentication, ctx, await readConnector(connector.id));
    await mcp.handle(ctx, { caller, body, revalidate });
  });
  router.all('/mcp', allowedOrigin, async (ctx) => {
    const revalidate = () => authenticateMintedToken(authentication, ctx);
    const caller = await revalidate();
    const body = ctx.method === 'POST' ? await readBody(ctx, readOptions) : undefined;
    await mcp.handle(ctx, { caller, body, revalidate });
    void recordUse(store, caller.record, now()).catch(() => undefined);
  });
  app.use(router.routes());

  return {
    app,
    check: (signal) => checkUpstream(settings, services, signal),
    end: mcp.end,
    close: mcp.close,
  };
}

/** Throws 404 if the connector does not exist, and 410 if it ended. A connector without uses left still serves its connections. */
function requireUsableConnector(connector: Connector | undefined, now: number): Connector {
  if (!connector) throw notFound('there is no such connect link; check that it was copied whole');
  const state = connectorState(connector, now);
  if (state === 'revoked') throw gone('this connect link was revoked; ask for a fresh one');
  if (state === 'expired') throw gone('this connect link has expired; ask for a fresh one');
  return connector;
}

function gone(message: string): HttpError {
  return new HttpError(410, 'gone', message);
}

/** The operator's own MCP server if there is one, else the sample. */
function openMcpHandler(
  settings: Settings,
  services: Services,
  { onChange }: RecordCache,
): McpHandler {
  const { upstream } = settings.resourceServer;
  if (upstream) return openUpstreamProxy(settings, services, upstream, onChange);
  const { version, logger } = services;
  const { productName } = settings;
  return openSample({ productName, version, audit: callAuditor(services), logger });
}

/** Imports the MCP client only with an upstream. */
async function checkUpstream(
  settings: Settings,
  services: Services,
  signal: AbortSignal,
): Promise<void> {
  const { upstream } = settings.resourceServer;
  if (!upstream) return;
  const discovery = await import('./upstream/discovery.ts');
  await discovery.checkUpstream(settings, services, upstream, signal);
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
  ctx.body = document;
}
