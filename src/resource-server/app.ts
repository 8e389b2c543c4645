// The resource server: one Koa app. A call runs through this file top to bottom: connector, token, body, level, MCP.
import { Router } from '@koa/router';
import type { JWTVerifyGetKey } from 'jose';
import type Koa from 'koa';
import type { Logger } from 'pino';
import type { Connector } from '../connectors/connector.ts';
import { allowAnyOrigin } from '../http/cors.ts';
import { HttpError } from '../http/errors.ts';
import { createHost } from '../http/host.ts';
import { noteUse } from '../minted-tokens/minted-tokens.ts';
import type { Settings } from '../settings/settings.ts';
import type { Store } from '../store/store.ts';
import type { Answering } from './answering.ts';
import {
  type BearerOptions,
  callerOf,
  type MintedCaller,
  mintedCallerOf,
  presentedToken,
} from './bearer.ts';
import { requireKnownOrigin, requireUsableConnector } from './guards.ts';
import { respondWithJsonRpc } from './json-rpc.ts';
import { type Caller, decide, type Needed } from './level.ts';
import { callRecorder } from './call-record.ts';
import { readMessages } from './messages.ts';
import { openRecords } from './records.ts';
import { openSample } from './sample.ts';
import { challenge, connectorMetadata, METADATA_PREFIX, rootMetadata } from './metadata.ts';

export type ResourceServerOptions = {
  settings: Settings;
  version: string;
  store: Store;
  verificationKeys: JWTVerifyGetKey;
  logger: Logger;
  isReady: () => Promise<void>;
  now: () => number;
};

export type ResourceServer = { app: Koa; close: () => Promise<void> };

export async function resourceServer(options: ResourceServerOptions): Promise<ResourceServer> {
  const { settings, store, logger, isReady, now } = options;
  const records = await openRecords(store, now);
  const answering = openAnswering(options);
  const app = createHost({
    name: 'resource-server',
    url: settings.resourceUrl,
    proxies: settings.proxies,
    logger,
    isReady,
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
  const bearer = { ...settings, ...records, verificationKeys: options.verificationKeys };
  const bodyOf = async (ctx: Koa.Context) =>
    ctx.method === 'POST' ? readMessages(ctx, settings.resourceServer.maxBodyBytes) : undefined;
  router.all('/connect/:connector/mcp', origins, async (ctx) => {
    const judge = async () => {
      const connector = await requireConnector(String(ctx.params.connector));
      return { connector, caller: await requireCaller(bearer, ctx, connector) };
    };
    const { connector, caller } = await judge();
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
  return { app, close: () => answering.close() };
}

function openAnswering({
  settings,
  version,
  store,
  logger,
  now,
}: ResourceServerOptions): Answering {
  const { productName } = settings;
  return openSample({ productName, version, record: callRecorder(store, now), logger });
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

/** 401 with the way in, on every method and before anything is said about the message (RFC 9728 section 5.1). */
async function requireCaller(
  options: BearerOptions,
  ctx: Koa.Context,
  connector: Connector,
): Promise<Caller> {
  const { token, isPresent } = presentedToken(ctx.req.headers.authorization);
  const caller = token === undefined ? undefined : await callerOf(options, connector, token);
  if (caller) return caller;
  const error = isPresent ? ({ error: 'invalid_token' } as const) : {};
  const header = challenge(options, connector, { ...error, scope: connector.level });
  const message = isPresent
    ? 'the access token is not good for this connect link'
    : 'an access token is needed: sign in first';
  const code = isPresent ? 'invalid_token' : 'token_required';
  throw new HttpError(401, code, message, { headers: { 'WWW-Authenticate': header } });
}

type Wish = { connector: Connector; caller: Caller; needed: Needed | undefined };

/** RFC 6750 section 3.1: the person may grant what is missing. What no sign-in can give is a tool error, made by what answers. */
function requireLevel(settings: Settings, { connector, caller, needed }: Wish): void {
  if (!needed || decide(caller, needed.level) !== 'step-up') return;
  const header = challenge(settings, connector, {
    error: 'insufficient_scope',
    scope: needed.level,
  });
  const message = `the tool ${needed.tool} needs the level ${needed.level}: sign in again and allow it`;
  throw new HttpError(403, 'insufficient_scope', message, {
    headers: { 'WWW-Authenticate': header },
  });
}

/** No `resource_metadata` in the answer: there is nothing to sign in to here. */
async function requireMintedCaller(
  options: BearerOptions,
  ctx: Koa.Context,
): Promise<MintedCaller> {
  const { token } = presentedToken(ctx.req.headers.authorization);
  const caller = token === undefined ? undefined : await mintedCallerOf(options, token);
  if (caller) return caller;
  const message =
    'this address takes minted tokens only: use a connect link (…/connect/<connector>/mcp) to sign in, or ask an administrator for a minted token';
  throw new HttpError(401, 'invalid_token', message, { headers: { 'WWW-Authenticate': 'Bearer' } });
}
