import { Router } from '@koa/router';
import type { JWTVerifyGetKey } from 'jose';
import type Koa from 'koa';
import type { IncomingMessage } from 'node:http';
import type { CallOutcome } from '../audit/activity.ts';
import { type Connector, type ConnectorSettings, connectorState } from '../connectors/connector.ts';
import { allowAnyOrigin, ANY_ORIGIN_HEADERS, requireAllowedOrigin } from '../http/cors.ts';
import { homeValues } from '../pages/home.ts';
import { clientGone, HttpError, notFound } from '../http/errors.ts';
import { createHost, respondWithText } from '../http/host.ts';
import { PROBE_PURPOSE } from '../http/proxy-probe.ts';
import { outcomeOf, requestContext } from '../http/request-context.ts';
import { keyRing } from '../keys/key-ring.ts';
import { recordUse } from '../minted-tokens/minted-tokens.ts';
import { highestLevelIn } from '../permission-levels.ts';
import type { Services } from '../services.ts';
import type { Settings } from '../settings/settings.ts';
import { findUpstream, type LeadsToUpstream } from '../settings/upstreams.ts';
import {
  authenticate,
  type Caller,
  limitOwner,
  authenticateMintedToken,
  tokenRequired,
  tokenVerifier,
} from './authenticate.ts';
import { authorize, challengeForStepUp, insufficientScope } from './authorize.ts';
import { callAuditor } from './call-audit.ts';
import { dpopProofs } from './dpop.ts';
import { authorizationExtensions } from './extensions.ts';
import { heldBytes } from './held-bytes.ts';
import { membersOf } from '../json-values.ts';
import { idOf } from './json-rpc.ts';
import type { AuthorizedRequest, McpHandler } from './mcp-handler.ts';
import { connectorMetadata, METADATA_PREFIX, rootMetadata } from './metadata.ts';
import { isVisit, respondToError, showConnectLink } from './pages.ts';
import { readBody } from './read-body.ts';
import { openRecordCache, type RecordCache } from './record-cache.ts';
import { outlineOf } from './request-outline.ts';
import { replaceToleratedHeaders } from './tolerated-headers.ts';
import type { UpstreamProxy } from './upstream/proxy.ts';

export type ResourceServer = {
  app: Koa;
  /** Reads the tools of the operator's MCP servers, and logs what is wrong with them, unless the signal is aborted. */
  check: (signal: AbortSignal) => Promise<void>;
} & Pick<McpHandler, 'end' | 'close'>;

export async function resourceServer(
  settings: Settings,
  services: Services,
  verificationKeys: JWTVerifyGetKey,
): Promise<ResourceServer> {
  const { store, pages, rateLimits, now } = services;
  const records = await openRecordCache(store, now);
  /** Of records. A caller whose body came slowly is authenticated again if there were any meanwhile. */
  let changes = 0;
  records.onChange(() => (changes += 1));
  const handlers = await openMcpHandlers(settings, services, records);
  let serveCall: ServeCall = () => undefined;
  const app = createHost({
    ...services,
    name: 'resource-server',
    url: settings.resourceUrl,
    proxies: settings.proxies,
    probeKeys: keyRing(settings, PROBE_PURPOSE),
    respondToError: respondToError(pages, settings.resourceServer.maxBodyBytes),
    assets: pages.middleware,
    direct: { find: (req) => findCall(req, serveCall), headers: ANY_ORIGIN_HEADERS },
  });
  const authentication = {
    addresses: settings,
    settings,
    records,
    verifyToken: tokenVerifier({ issuer: settings.authUrl, verificationKeys, now }),
    wrongTokens: rateLimits.wrongTokens,
  };
  const requireDpopProof = dpopProofs(settings, services);
  const { authUrl, resourceUrl } = settings;
  const { allowedOrigins, maxBodyBytes } = settings.resourceServer;
  const allowedOrigin = requireAllowedOrigin({
    allowed: new Set([authUrl, resourceUrl, ...allowedOrigins]),
    allowLoopback: !settings.production,
  });
  const readOptions = { limit: maxBodyBytes, keepBigIntegers: settings.upstreams.length > 0 };
  const held = heldBytes({
    ...settings.resourceServer.heldBytes,
    largest: Math.max(maxBodyBytes, ...settings.upstreams.map((each) => each.maxAnswerBytes)),
  });
  /** Counts the request before its body is read. */
  const readRequest = async (
    ctx: Koa.Context,
    mcp: McpHandler,
    caller: Caller,
  ): Promise<Pick<AuthorizedRequest, 'slot' | 'hold' | 'body'>> => {
    // It may have gone while it was authenticated: then no `close` would free what it gets.
    if (ctx.res.destroyed) throw clientGone();
    const isPost = ctx.method === 'POST';
    const slot = mcp.acquire(caller, isPost ? 'working' : 'listening');
    const hold = held.hold(limitOwner(caller));
    ctx.res.once('close', () => {
      slot.release();
      hold.release();
    });
    if (!isPost) return { slot, hold, body: undefined };
    const body = await readBody(ctx, { ...readOptions, hold });
    requestContext(ctx).jsonRpc = { id: idOf(body), outline: outlineOf(body) };
    return { slot, hold, body };
  };
  const countCalls = (ctx: Koa.Context, { level }: Caller, body: unknown) => {
    const isCall = (message: unknown) => membersOf(message).method === 'tools/call';
    const calls = Array.isArray(body) ? body.filter(isCall).length : Number(isCall(body));
    if (calls === 0) return;
    requestContext(ctx).onEnd = () => services.activity.calls(level, callOutcome(ctx), calls);
  };
  const readConnector = async (id: string) =>
    requireUsableConnector(await records.readConnector(id), now(), settings);

  const router = new Router({ sensitive: true, strict: true });
  metadataRoutes(router, settings, readConnector);
  router.get('/', async (ctx) => {
    if (!isVisit(ctx)) throw notFound();
    await pages.render(ctx, 'home', homeValues(settings));
  });
  const serveLink = async (ctx: Koa.Context, id: string) => {
    const known = changes;
    const connector = await readConnector(id);
    if (isVisit(ctx)) {
      const refusal = tokenRequired(settings, connector);
      return showConnectLink(pages, ctx, { resourceUrl, connector, refusal });
    }
    let caller = await authenticate(authentication, ctx, connector);
    const mcp = await handlers.serving(connector);
    if (caller.keyThumbprint !== undefined) await requireDpopProof(ctx, connector, caller);
    const revalidate = async () =>
      authenticate(authentication, ctx, await readConnector(connector.id));
    const request = await readRequest(ctx, mcp, caller);
    if (changes !== known) caller = await revalidate();
    countCalls(ctx, caller, request.body);
    challengeForStepUp(
      settings.levels,
      settings,
      connector,
      caller,
      mcp.requiredLevel(request.body),
    );
    const stepUpTo = (scope: string) => {
      const level = highestLevelIn(settings.levels, scope);
      if (!level || authorize(settings.levels, caller, level) !== 'step-up') return undefined;
      const message = `the MCP server asks for the level ${level}: sign in again and allow it`;
      return insufficientScope(settings, connector, caller, { level, message });
    };
    replaceToleratedHeaders(ctx.req.headers);
    await mcp.handle(ctx, Object.assign(request, { caller, revalidate, stepUpTo }));
  };
  const serveMinted = async (ctx: Koa.Context) => {
    const revalidate = () => authenticateMintedToken(authentication, ctx);
    const known = changes;
    let caller = await revalidate();
    const mcp = await handlers.serving(caller.record);
    const request = await readRequest(ctx, mcp, caller);
    if (changes !== known) caller = await revalidate();
    countCalls(ctx, caller, request.body);
    replaceToleratedHeaders(ctx.req.headers);
    await mcp.handle(ctx, Object.assign(request, { caller, revalidate }));
    void recordUse(store, caller.record, now()).catch(() => undefined);
  };
  serveCall = (id) => (id === undefined ? serveMinted : (ctx) => serveLink(ctx, id));
  router.all('/connect/:connector/mcp', allowedOrigin, (ctx) =>
    serveLink(ctx, String(ctx.params.connector)),
  );
  router.all('/mcp', allowedOrigin, serveMinted);
  app.use(router.routes());

  return {
    app,
    check: handlers.discover,
    end: handlers.end,
    close: handlers.close,
  };
}

/** `id` is the connector's; undefined for calls with minted tokens. */
type ServeCall = (id: string | undefined) => ((ctx: Koa.Context) => Promise<void>) | undefined;

const CALL_PATH = /^\/(?:connect\/([\w-]+)\/)?mcp$/;

/** Requests with a token that no web page sent. */
function findCall({ url = '', headers }: IncomingMessage, serve: ServeCall) {
  if (headers.authorization === undefined || headers.origin !== undefined) return undefined;
  const match = CALL_PATH.exec(url);
  return match ? serve(match[1]) : undefined;
}

/** Throws 404 if the connector does not exist, and 410 if it ended. A connector without uses left still serves its connections. */
function requireUsableConnector(
  connector: Connector | undefined,
  now: number,
  settings: ConnectorSettings,
): Connector {
  if (!connector)
    throw new HttpError(
      404,
      'not_found',
      'this connect link does not exist; check that you copied the whole link',
      { about: 'link_unknown' },
    );
  const state = connectorState(connector, now, settings);
  if (state === 'revoked')
    throw gone('this connect link was revoked; ask for a fresh one', 'link_revoked');
  if (state === 'expired')
    throw gone('this connect link has expired; ask for a fresh one', 'link_expired');
  if (state === 'unconfigured')
    throw gone(
      'the level or the MCP server of this connect link is no longer configured; ask for a fresh one',
      'link_unconfigured',
    );
  return connector;
}

/** `about` is the key of the texts of the page. */
function gone(message: string, about: string): HttpError {
  return new HttpError(410, 'gone', message, { about });
}

function callOutcome(ctx: Koa.Context): CallOutcome {
  const { status } = outcomeOf(ctx);
  if (status < 400) return 'done';
  return status < 500 ? 'refused' : 'failed';
}

type McpHandlers = {
  /** The handler of the only MCP server that a connector or a minted token leads to, which the settings must have. */
  serving(record: LeadsToUpstream): McpHandler | Promise<McpHandler>;
  /** Resolves after the first attempt to read the tools of each upstream. */
  discover(signal: AbortSignal): Promise<void>;
} & Pick<McpHandler, 'end' | 'close'>;

/** One handler for each of the operator's own MCP servers, or the sample. Loads only the libraries of what it opens. */
async function openMcpHandlers(
  settings: Settings,
  services: Services,
  { onChange }: RecordCache,
): Promise<McpHandlers> {
  const { upstreams, productName, levels } = settings;
  if (upstreams.length === 0) {
    const { version, logger } = services;
    const open = async () => {
      const { openSample } = await import('./sample/mcp-server.ts');
      return openSample({
        productName,
        levels,
        version,
        extensions: authorizationExtensions(settings),
        audit: callAuditor(services),
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
      close: async () => (await sample)?.close(),
    };
  }
  const { openToolDiscovery } = await import('./upstream/tool-discovery.ts');
  const { openUpstreamProxy } = await import('./upstream/proxy.ts');
  const { openOpenCalls } = await import('./upstream/open-calls.ts');
  const openCalls = await openOpenCalls(services.store);
  const proxies = new Map<string, UpstreamProxy>();
  for (const upstream of upstreams) {
    const discovery = await openToolDiscovery(settings, services, upstream);
    proxies.set(
      upstream.id,
      openUpstreamProxy(settings, services, { upstream, discovery, onChange, openCalls }),
    );
  }
  const all = [...proxies.values()];
  return {
    serving(record) {
      const proxy = proxies.get(findUpstream(upstreams, record)?.id ?? '');
      if (!proxy) throw new Error('the settings do not have the upstream of the record');
      return proxy;
    },
    discover: async (signal) =>
      void (await Promise.all(all.map((proxy) => proxy.discover(signal)))),
    end: (kind) => all.forEach((proxy) => proxy.end(kind)),
    close: async () =>
      void (await Promise.all([openCalls, ...all].map((opened) => opened.close()))),
  };
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
