// The resource server: one Koa app. A call runs through this file top to bottom: connector, token, body, level, MCP.
import { Router } from '@koa/router';
import type { JWTVerifyGetKey } from 'jose';
import type Koa from 'koa';
import type { Logger } from 'pino';
import type { Connector } from '../connectors/connector.ts';
import { allowAnyOrigin } from '../http/cors.ts';
import { HttpError } from '../http/errors.ts';
import { createHost } from '../http/host.ts';
import { PROBE_PURPOSE } from '../http/proxy-probe.ts';
import type { RateLimits } from '../http/rate-limits.ts';
import { noteUse } from '../minted-tokens/minted-tokens.ts';
import { keyRing } from '../keys/key-ring.ts';
import type { SigningKey } from '../keys/signing-keys.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Traces } from '../observability/tracing.ts';
import type { Settings } from '../settings/settings.ts';
import type { Store } from '../store/store.ts';
import { requireCaller, requireMintedCaller } from './admission.ts';
import type { Answering } from './answering.ts';
import { requireKnownOrigin, requireUsableConnector } from './guards.ts';
import { openKeyProofs } from './key-proof.ts';
import { respondWithJsonRpc } from './json-rpc.ts';
import { type Caller, decide, type Needed } from './level.ts';
import { callRecorder } from './call-record.ts';
import { readMessages } from './messages.ts';
import { openRecords, type Records } from './records.ts';
import { openRoom } from './open-call-limits.ts';
import { openCalls } from './open-calls.ts';
import { openSample } from './sample.ts';
import { tokenVerifier } from './verified-tokens.ts';
import { openTasks } from './upstream/tasks.ts';
import { openUpstream } from './upstream/upstream.ts';
import { challenge, connectorMetadata, METADATA_PREFIX, rootMetadata } from './metadata.ts';

export type ResourceServerOptions = {
  settings: Settings;
  version: string;
  store: Store;
  verificationKeys: JWTVerifyGetKey;
  /** The key that signs now; with an upstream only. */
  signingKey?: () => SigningKey;
  logger: Logger;
  metrics: Metrics;
  traces?: Traces | undefined;
  isReady: () => Promise<void>;
  rateLimits: RateLimits;
  now: () => number;
};

export type ResourceServer = { app: Koa; check: () => Promise<void> } & Pick<
  Answering,
  'end' | 'close'
>;

export async function resourceServer(options: ResourceServerOptions): Promise<ResourceServer> {
  const { settings, store, logger, isReady, rateLimits, now } = options;
  const records = await openRecords(store, now);
  const answering = openAnswering(options, records);
  const app = createHost({
    name: 'resource-server',
    url: settings.resourceUrl,
    proxies: settings.proxies,
    logger,
    metrics: options.metrics,
    traces: options.traces,
    isReady,
    probeKeys: keyRing(settings, PROBE_PURPOSE),
    respondToError: respondWithJsonRpc,
  });
  const router = new Router({ sensitive: true, strict: true });
  const requireConnector = async (id: string) =>
    requireUsableConnector(await records.readConnector(id), now());
  documents(router, settings, requireConnector);
  const origins = requireKnownOrigin({
    allowed: new Set([
      settings.authUrl,
      settings.resourceUrl,
      ...settings.resourceServer.allowedOrigins,
    ]),
    allowLoopback: !settings.production,
  });
  const { verificationKeys } = options;
  const verifyToken = tokenVerifier({ issuer: settings.authUrl, verificationKeys, now });
  const bearer = { ...settings, ...records, verifyToken, wrongTokens: rateLimits.wrongTokens };
  const { maxBodyBytes: limit, upstream } = settings.resourceServer;
  const requireKeyProof = await openKeyProofs(options);
  const bodyOf = async (ctx: Koa.Context) =>
    ctx.method === 'POST'
      ? readMessages(ctx, limit, { exactly: upstream !== undefined })
      : undefined;
  router.all('/connect/:connector/mcp', origins, async (ctx) => {
    const judge = async () => {
      const connector = await requireConnector(String(ctx.params.connector));
      return { connector, caller: await requireCaller(bearer, ctx, connector) };
    };
    const { connector, caller } = await judge();
    await requireKeyProof(ctx, connector, caller);
    const body = await bodyOf(ctx);
    requireLevel(settings, { connector, caller, needed: answering.neededLevel(body) });
    await answering.answer(ctx, { caller, body, requireStillGood: judge });
  });
  router.all('/mcp', origins, async (ctx) => {
    const judge = () => requireMintedCaller(bearer, ctx);
    const caller = await judge();
    const body = await bodyOf(ctx);
    await answering.answer(ctx, { caller, body, requireStillGood: judge });
    void noteUse(store, caller.record, now()).catch(() => undefined);
  });
  app.use(router.routes());
  const closing = new AbortController();
  return {
    app,
    check: () => check(options, closing.signal),
    end: answering.end,
    async close() {
      closing.abort();
      await answering.close();
    },
  };
}

/** Says in the log what is wrong with the operator's MCP server. Loaded only where there is one. */
async function check(options: ResourceServerOptions, signal: AbortSignal): Promise<void> {
  const { settings, version, signingKey, logger, now } = options;
  const { upstream } = settings.resourceServer;
  if (!upstream || !signingKey) return;
  const { checkUpstream } = await import('./upstream/tool-check.ts');
  const issuer = settings.authUrl;
  await checkUpstream({ upstream, issuer, version, signingKey, logger, now, signal });
}

/** The operator's own MCP server where there is one, else the sample. */
function openAnswering(options: ResourceServerOptions, { onChange }: Records): Answering {
  const { settings, version, store, logger, signingKey, now } = options;
  const { productName, authUrl: issuer } = settings;
  const { upstream } = settings.resourceServer;
  const shared = { productName, version, record: callRecorder(options), logger };
  if (!upstream) return openSample(shared);
  if (!signingKey) throw new Error('an upstream is told who calls, which takes the signing keys');
  const handleKeys = keyRing(settings, 'handles of the upstream');
  const calls = openCalls(onChange);
  const answering = openUpstream({
    ...shared,
    upstream,
    issuer,
    handleKeys,
    tasks: openTasks(store, upstream.url, now),
    signingKey,
    calls,
    room: openRoom(upstream.openCalls),
    now,
  });
  const close = async () => {
    calls.close();
    await answering.close();
  };
  return { ...answering, close };
}

/** RFC 9728: for the root, and for each connect link; readable from anywhere. Also of links whose uses are taken. */
function documents(
  router: Router,
  settings: Settings,
  requireConnector: (id: string) => Promise<Connector>,
): void {
  const connectorPath = `${METADATA_PREFIX}/connect/:connector/mcp`;
  router.options([METADATA_PREFIX, connectorPath], allowAnyOrigin('GET'));
  router.get(METADATA_PREFIX, allowAnyOrigin('GET'), (ctx) => {
    answerDocument(ctx, rootMetadata(settings, settings.productName));
  });
  router.get(connectorPath, allowAnyOrigin('GET'), async (ctx) => {
    const connector = await requireConnector(String(ctx.params.connector)).catch(
      (error: unknown) => {
        throw error instanceof HttpError && error.status === 410
          ? new HttpError(404, 'not_found', error.message)
          : error;
      },
    );
    answerDocument(ctx, connectorMetadata(settings, connector));
  });
}

function answerDocument(ctx: Koa.Context, document: Record<string, unknown>): void {
  ctx.set('Cache-Control', 'public, max-age=300');
  ctx.body = document;
}

type Wish = { connector: Connector; caller: Caller; needed: Needed | undefined };

/** RFC 6750 section 3.1: the person may grant what is missing. What no sign-in can give is a tool error, made by what answers. */
function requireLevel(settings: Settings, { connector, caller, needed }: Wish): void {
  if (!needed || decide(caller, needed.level) !== 'step-up') return;
  const header = challenge(settings, connector, {
    error: 'insufficient_scope',
    scope: needed.level,
    scheme: caller.keyThumbprint === undefined ? 'Bearer' : 'DPoP',
  });
  const message = `the tool ${needed.tool} needs the level ${needed.level}: sign in again and allow it`;
  throw new HttpError(403, 'insufficient_scope', message, {
    headers: { 'WWW-Authenticate': header },
  });
}
