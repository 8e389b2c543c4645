// Proxies MCP requests to the operator's own MCP server. Replaces the access token by a signed header that says who calls.
import type Koa from 'koa';
import { type Dispatcher, Pool } from 'undici';
import { asHttpError, HttpError, methodNotAllowed, unavailable } from '../../http/errors.ts';
import { requestContext } from '../../http/request-context.ts';
import { keyRing } from '../../keys/key-ring.ts';
import { type SpanLink, tracedRequest } from '../../observability/tracing.ts';
import { isRecorded, type Levels } from '../../permission-levels.ts';
import type { Services } from '../../services.ts';
import type { Upstream } from '../../settings/upstreams.ts';
import { type CatalogTool, usableTools } from '../../upstreams/tool-catalog.ts';
import { levelRules, type LevelRules } from '../../upstreams/tool-levels.ts';
import type { Settings } from '../../settings/settings.ts';
import { StoreUnavailable } from '../../store/store.ts';
import {
  type ActiveRequests,
  ProcessStops,
  type RequestKind,
  trackActiveRequests,
} from '../active-requests.ts';
import type { Caller } from '../authenticate.ts';
import { highestRequired } from '../authorize.ts';
import { type AuditCall, AUDIT_FAILED, callAuditor } from '../call-audit.ts';
import { authorizationExtensions, type Extensions } from '../extensions.ts';
import {
  errorResponse,
  INTERNAL_ERROR,
  isRequest,
  isSubscription,
  membersOf,
  type Message,
  type MessageId,
  MISSING_CLIENT_CAPABILITY,
  plainValues,
  requireMessages,
  SERVER_ERROR,
  subscriptionEnded,
  traceLinksIn,
  withTraceparent,
} from '../json-rpc.ts';
import type { AuthorizedRequest, McpHandler } from '../mcp-handler.ts';
import type { RecordCache } from '../record-cache.ts';
import {
  idBinder,
  namesTask,
  NO_TASKS,
  taskOwnership,
  withoutForeignTask,
  withUnboundState,
} from './bound-ids.ts';
import { callerHeader } from './caller-header.ts';
import { concurrencyLimiter, type ConcurrencyLimiter } from './concurrency-limit.ts';
import { outboundHeaders, parameterHeaders } from './headers.ts';
import type { OpenCalls } from './open-calls.ts';
import type { ToolDiscovery } from './tool-discovery.ts';
import { refuseMessages, requiredBy } from './levels.ts';
import {
  badGateway,
  filterEvents,
  filterMessage,
  type FilterMessage,
  forwardResponse,
  type UpstreamResponse,
} from './response.ts';

export type UpstreamProxy = McpHandler & {
  /** Resolves after the first attempt to read the tools. */
  discover(signal: AbortSignal): Promise<void>;
};

export type UpstreamProxyOptions = {
  upstream: Upstream;
  discovery: ToolDiscovery;
  /** Reports the ids of changed records. */
  onChange: RecordCache['onChange'];
  /** Shared by all upstreams. */
  openCalls: OpenCalls;
};

export function openUpstreamProxy(
  settings: Settings,
  services: Services,
  { upstream, discovery, onChange, openCalls }: UpstreamProxyOptions,
): UpstreamProxy {
  const { store, keys, now } = services;
  const { levels } = settings;
  const { url } = upstream;
  if (!keys.signing) throw new Error('the proxy signs caller headers and needs the signing keys');
  const signingKey = keys.signing.current;
  const pool = new Pool(new URL(url).origin, { allowH2: false });
  const activeRequests = trackActiveRequests(onChange);
  const proxy: Proxy = {
    upstream,
    productName: settings.productName,
    services,
    send: senderTo(url, pool),
    audit: callAuditor(services),
    activeRequests,
    concurrency: concurrencyLimiter(upstream.id, upstream.openCalls, openCalls),
    rules: currentRules(levels, upstream, () => usableTools(discovery.catalog(), now())),
    ids: idBinder(keyRing(settings, 'handles of the upstream'), levels, url),
    tasks: taskOwnership(store, levels, url, now),
    parameterHeaders: parameterHeaders(),
    extensions: authorizationExtensions(settings),
    onToolsChanged: discovery.refresh,
    callerJwt: callerHeader({ issuer: settings.authUrl, audience: url, signingKey, now }),
  };
  return {
    requiredLevel: (body) =>
      highestRequired(levels, body, (message) => requiredBy(proxy.rules(), message)),
    handle: (ctx, request) => proxyRequest(ctx, request, proxy),
    discover: discovery.start,
    end: (kind) => activeRequests.end(kind),
    async close() {
      activeRequests.close();
      await discovery.close();
      await pool.destroy();
    },
  };
}

/** Computes the rules again only when the tools have changed. */
function currentRules(
  levels: Levels,
  upstream: Upstream,
  currentTools: () => readonly CatalogTool[],
): () => LevelRules {
  let tools = currentTools();
  let rules = levelRules(levels, upstream, tools);
  return () => {
    const next = currentTools();
    if (next !== tools) rules = levelRules(levels, upstream, next);
    tools = next;
    return rules;
  };
}

type Proxy = {
  upstream: Upstream;
  productName: string;
  services: Services;
  send: (request: OutboundRequest) => Promise<UpstreamResponse>;
  audit: AuditCall;
  activeRequests: ActiveRequests;
  concurrency: ConcurrencyLimiter;
  /** Follows the catalog of the tools. */
  rules: () => LevelRules;
  /** Binds ids that the upstream issues to their callers. */
  ids: ReturnType<typeof idBinder>;
  tasks: ReturnType<typeof taskOwnership>;
  parameterHeaders: ReturnType<typeof parameterHeaders>;
  extensions: Extensions;
  callerJwt: ReturnType<typeof callerHeader>;
  /** Called when the upstream says that its list of tools changed. */
  onToolsChanged: () => void;
};

type OutboundRequest = {
  method: Dispatcher.HttpMethod;
  headers: Record<string, string>;
  /** Serializes the messages with our trace context, if traces are on. */
  body?: (traceparent: string | undefined) => string;
  /** The client's trace contexts. */
  links: readonly SpanLink[];
  /** Aborted when the request must end. */
  signal: AbortSignal;
};

const METHODS = ['GET', 'POST', 'DELETE'] as const;

async function proxyRequest(
  ctx: Koa.Context,
  { caller, body, revalidate }: AuthorizedRequest,
  proxy: Proxy,
): Promise<void> {
  const { ids, tasks, parameterHeaders, productName } = proxy;
  const rules = proxy.rules();
  const { version } = proxy.services;
  const method = requireMethod(ctx);
  const messages = method === 'POST' ? requirePosted(ctx, body) : [];
  const headers = outboundHeaders(
    { headers: ctx.req.headers, messages },
    {
      ids,
      parameterHeaders,
      caller,
      callerJwt: await proxy.callerJwt(caller),
      credentials: proxy.upstream.headers,
      version,
    },
  );

  const ownTasks = messages.some(namesTask) ? await tasks.idsOf(caller) : NO_TASKS;
  const refused = refuseMessages({ rules, productName, ids, ownTasks }, caller, messages);
  if (refused) return respondLocally(ctx, body, refused);
  const kind = kindOf(method, messages);
  const release = proxy.concurrency.acquire(caller, kind);
  const unaudited = await auditMessages(proxy, rules, caller, messages);
  if (unaudited) {
    release();
    return respondLocally(ctx, body, unaudited);
  }

  const sent = messages.map((message) =>
    withUnboundState(ids, caller, withoutForeignTask(ownTasks, message)),
  );
  const filter = {
    // A list may arrive long after the request.
    get rules() {
      return proxy.rules();
    },
    caller,
    tasks,
    ownTasks,
    ids,
    parameterHeaders,
    extensions: proxy.extensions,
    onToolsChanged: proxy.onToolsChanged,
    isListening: method === 'GET' || messages.some(isSubscription),
  };
  const active = proxy.activeRequests.start(idsOf(caller), revalidate, kind);
  await forward(ctx, proxy, {
    method,
    headers,
    ...(method === 'POST' ? { body: serializer(body, sent) } : {}),
    links: traceLinksIn(messages),
    messages,
    signal: active.signal,
    filter: (message) => filterMessage(filter, message),
    bindSession: (id) => ids.bind('session', caller, id),
    bindEvent: (id) => ids.bind('event', caller, id),
    end() {
      active.end();
      release();
    },
  });
}

function requireMethod(ctx: Koa.Context): (typeof METHODS)[number] {
  const method = METHODS.find((name) => name === ctx.method);
  if (method) return method;
  throw methodNotAllowed({ Allow: METHODS.join(', ') });
}

/** Requires the content type because browsers send forms of other origins without a preflight. */
function requirePosted(ctx: Koa.Context, body: unknown): Message[] {
  if (ctx.is('application/json')) return requireMessages(body);
  throw new HttpError(415, 'invalid_request', 'send JSON (application/json)');
}

function kindOf(method: string, messages: readonly Message[]): RequestKind {
  const requests = messages.filter(isRequest);
  const isWaiting = method === 'GET' || (requests.length > 0 && requests.every(isSubscription));
  return isWaiting ? 'listening' : 'working';
}

/** The records that revalidation reads. */
function idsOf({ accountId, connector, grantId, tokenId }: Caller): string[] {
  return [accountId, connector, grantId, tokenId].filter((id) => id !== undefined);
}

/** Audits the calls of a caller with a recorded level. Returns error responses to all requests if that fails. */
async function auditMessages(
  { audit, services }: Proxy,
  rules: LevelRules,
  caller: Caller,
  messages: readonly Message[],
): Promise<object[] | undefined> {
  if (!isRecorded(rules.levels, caller.level)) return undefined;
  try {
    for (const message of messages) {
      const required = requiredBy(rules, message);
      if (required) await audit(auditedCall(caller, required.tool, message));
    }
    return undefined;
  } catch (error) {
    services.logger.error(
      { err: error },
      'a call was refused, because the audit log could not record it',
    );
    const failure = { code: INTERNAL_ERROR, message: AUDIT_FAILED };
    return messages.filter(isRequest).map(({ id }) => errorResponse(id, failure));
  }
}

/** Requests other than tool calls are audited with their method and all params. */
function auditedCall(caller: Caller, tool: string, { method, params = {} }: Message) {
  const given = method === 'tools/call' ? (params['arguments'] ?? {}) : params;
  return { caller, tool, arguments: plainValues(given), outcome: 'allowed' } as const;
}

function respondLocally(ctx: Koa.Context, body: unknown, responses: object[]): void {
  ctx.set('Cache-Control', 'no-store');
  if (responses.length > 0) {
    ctx.body = Array.isArray(body) ? responses : responses[0];
    const { code } = membersOf(membersOf(ctx.body)['error']);
    if (code === MISSING_CLIENT_CAPABILITY) ctx.status = 400;
    return;
  }
  ctx.body = null;
  ctx.status = 202;
}

/** Serializes the checked messages again: of duplicate members, the upstream's parser might read the other one. */
function serializer(
  body: unknown,
  messages: readonly Message[],
): NonNullable<OutboundRequest['body']> {
  return (traceparent) => {
    const sent = traceparent
      ? messages.map((message) => withTraceparent(message, traceparent))
      : messages;
    return JSON.stringify(Array.isArray(body) ? sent : sent[0]);
  };
}

// Forwarding

/** Sends without following redirects or repeating a request. With traces on, in a span whose context the upstream gets. */
function senderTo(url: string, pool: Pool): Proxy['send'] {
  const { pathname, search } = new URL(url);
  const target = { headersTimeout: 0, bodyTimeout: 0, path: pathname + search };
  return ({ method, headers, body, signal, links }) =>
    tracedRequest(
      { peer: 'upstream', method, url, links },
      (span) =>
        pool.request({
          ...target,
          method,
          signal,
          headers: span ? { ...headers, traceparent: span.traceparent } : headers,
          ...(body ? { body: body(span?.traceparent) } : {}),
        }),
      ({ statusCode }) => statusCode,
    );
}

type Forwarded = OutboundRequest & {
  messages: readonly Message[];
  filter: FilterMessage;
  bindSession: (id: string) => string;
  bindEvent: (id: string) => string;
  /** Called when the request has ended; idempotent. */
  end: () => void;
};

/** Resolves when the response is complete or its stream has begun. Throws HttpError. */
async function forward(ctx: Koa.Context, proxy: Proxy, request: Forwarded): Promise<void> {
  const lifetime = startLifetime(ctx, proxy.upstream.timeout, request);
  try {
    const response = await proxy.send({ ...request, signal: lifetime.signal });
    const isStreaming = await forwardResponse(ctx, response, {
      ...request,
      expectsResponse: request.messages.some(isRequest),
      maxBytes: proxy.upstream.maxAnswerBytes,
      stream: (source) => streamEvents(ctx, source, proxy, request, lifetime),
    });
    if (!isStreaming) lifetime.end();
  } catch (error) {
    const cause = endReason(lifetime.signal, error);
    // An unread rest of the response would keep its connection.
    lifetime.abort();
    throw cause;
  }
}

type Lifetime = ReturnType<typeof startLifetime>;

/** `signal` aborts on the timeout, when the client disconnects, and when revalidation fails or the process stops. */
function startLifetime(ctx: Koa.Context, timeout: number, { signal, end }: Forwarded) {
  const timer = startTimeout(timeout);
  const disconnected = new AbortController();
  const abort = () => {
    disconnected.abort(new HttpError(400, 'client_gone', 'the client disconnected'));
    timer.clear();
    end();
  };
  ctx.res.once('close', abort);
  if (ctx.res.destroyed) abort();
  return {
    timer,
    signal: AbortSignal.any([signal, timer.signal, disconnected.signal]),
    abort,
    end() {
      ctx.res.off('close', abort);
      timer.clear();
      end();
    },
  };
}

/** Aborts its signal with 504 after `timeout` seconds. */
function startTimeout(timeout: number) {
  const controller = new AbortController();
  const start = (seconds: number) =>
    setTimeout(() => controller.abort(gatewayTimeout(seconds)), seconds * 1000);
  let timer = start(timeout);
  return {
    signal: controller.signal,
    restart(seconds: number) {
      clearTimeout(timer);
      timer = start(seconds);
    },
    refresh: () => void timer.refresh(),
    clear: () => clearTimeout(timer),
  };
}

function gatewayTimeout(seconds: number): HttpError {
  const message = 'the MCP server behind this address timed out; try again in a moment';
  const cause = new Error(`the upstream sent nothing for ${seconds} s`);
  return new HttpError(504, 'gateway_timeout', message, { cause });
}

/** Why a request ended early: the reason of the abort, an unavailable store, or a fault of the upstream. */
function endReason(signal: AbortSignal, error: unknown): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof StoreUnavailable) return unavailable(error);
  return error instanceof HttpError ? error : badGateway(error);
}

/** How long an ended stream waits for the client to read its last events. */
const FLUSH_MS = 1000;

async function* streamEvents(
  ctx: Koa.Context,
  source: AsyncIterable<Buffer>,
  { upstream, services }: Proxy,
  { messages, filter, bindEvent }: Forwarded,
  { timer, signal, end }: Lifetime,
): AsyncGenerator<string> {
  timer.restart(upstream.silence);
  const disconnect = () => void setTimeout(() => ctx.res.destroy(), FLUSH_MS).unref();
  signal.addEventListener('abort', disconnect, { once: true });
  try {
    yield* filterEvents(source, {
      maxEventLength: upstream.maxAnswerBytes,
      filter,
      bindEvent,
      requestIds: messages.filter(isRequest).flatMap(({ id }) => (id === undefined ? [] : [id])),
      onData: timer.refresh,
      onBreak(error) {
        const fault = asHttpError(endReason(signal, error));
        if (fault.cause instanceof ProcessStops) return endSubscriptions(messages, fault);
        if (fault.status >= 500) {
          // The status is already sent, so only the log and the metrics show the fault.
          requestContext(ctx).failure = { code: fault.code };
          services.logger.warn({ err: fault.cause ?? fault }, 'a stream of the MCP server failed');
        }
        return (id) => errorResponse(id, { code: SERVER_ERROR, message: fault.message });
      },
    });
  } finally {
    signal.removeEventListener('abort', disconnect);
    end();
  }
}

/** Ends subscriptions without an error, so that clients open new ones. */
function endSubscriptions(messages: readonly Message[], { message }: HttpError) {
  const subscriptions = new Set(messages.filter(isSubscription).map(({ id }) => id));
  return (id: MessageId) =>
    subscriptions.has(id)
      ? subscriptionEnded(id)
      : errorResponse(id, { code: SERVER_ERROR, message });
}
