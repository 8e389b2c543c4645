import type { KeyObject } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline, Readable } from 'node:stream';
import helmet from 'helmet';
import Koa from 'koa';
import compose from 'koa-compose';
import type { Logger } from 'pino';
import { canonicalHostCheck, clientAddress, requireOriginForm } from './canonical-host.ts';
import { deferHeaders, endWith, setDeferredHeaders } from './deferred-headers.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Traces } from '../observability/tracing.ts';
import {
  asHttpError,
  failureOf,
  HttpError,
  methodNotAllowed,
  notFound,
  type RespondToError,
  respondWithJson,
} from './errors.ts';
import { pooledRandom } from '../pooled-random.ts';
import { requestCounter } from './request-metrics.ts';
import {
  isValidProbe,
  PROBE_HEADER,
  observedRequest,
  respondWithProbeStream,
  STREAM_TYPE,
} from './proxy-probe.ts';
import { spanIds, traceRequests } from './request-spans.ts';
import { beginRequestContext, outcomeOf, requestContext, whenClosed } from './request-context.ts';
import { isWellKnown, refuseNestedWellKnown } from './well-known.ts';

export type HostOptions = {
  name: string;
  /** The public base URL. Requests for another host are rejected. */
  url: string;
  proxies: number;
  logger: Logger;
  metrics?: Metrics | undefined;
  traces?: Traces | undefined;
  /** Rejects while the process must not get traffic. Resolves to members of the response of `/readyz`. */
  isReady: () => Promise<object>;
  respondToError?: RespondToError;
  /** Serves the files of error pages, for any `Host`. */
  assets?: Koa.Middleware;
  /** `/livez` describes the request to probes that are signed with one of these keys. */
  probeKeys?: readonly KeyObject[];
  /** Sets the headers of all responses when a response begins (deferred-headers.ts). What the caller adds must not read or remove them. */
  defersHeaders?: boolean;
};

/** Creates an app with the steps that all hosts share. The caller adds its own. */
export function createHost(options: HostOptions): Koa {
  const app = new Koa();
  app.proxy = true;
  // handleErrors handles all errors except those of sockets that closed early.
  app.on('error', (error: Error) => options.logger.debug({ err: error }, 'response not delivered'));
  app.use(hostSteps(options));
  app.callback = () => {
    const serve = compose<Koa.Context>(app.middleware);
    return async (req, res) => {
      // The types of Koa allow HTTP/2.
      const ctx = app.createContext(req as IncomingMessage, res as ServerResponse);
      beginRequestContext(ctx);
      try {
        res.statusCode = 404;
        await serve(ctx);
        if (ctx.respond !== false) sendResponse(ctx);
      } catch (error) {
        ctx.onerror(error as Error);
      }
    };
  };
  return app;
}

/** Sends a body of JSON, text, bytes or a stream, or none, as Koa does. Koa also watches each response until its end, which takes a tenth of a proxied call. */
function sendResponse(ctx: Koa.Context): void {
  const { res, response } = ctx;
  if ([204, 205, 304].includes(ctx.status)) ctx.body = null;
  const { body } = ctx;
  if (!ctx.writable || ctx.status === 304) res.end();
  else if (ctx.method === 'HEAD') {
    if (response.length !== undefined) ctx.length = response.length;
    res.end();
  } else if (body === null || body === undefined) {
    if (ctx.status !== 204) ctx.length = 0;
    res.end();
  } else if (body instanceof Readable) {
    // A failure ends the connection, so that the client does not take the response for a whole one.
    pipeline(body, res, () => undefined);
  } else {
    const data = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    const bytes = Buffer.byteLength(data);
    ctx.length = bytes;
    endWith(res, data, bytes);
  }
}

/** In one function, because a chain of middleware takes a tenth of the time of a proxied call. */
function hostSteps(options: HostOptions): Koa.Middleware {
  const { name, url, metrics, traces, assets = (_ctx, next) => next() } = options;
  const headers = securityHeaders(url);
  const names = Object.entries(headers).flat();
  const respondWithHealth = healthResponder(options);
  const trace = traces && traceRequests(name, url, traces);
  const count = metrics && requestCounter(name, metrics);
  const log = requestLogger(options);
  const respondTo = errorResponder(options);
  const requireHost = canonicalHostCheck(url);

  async function serve(ctx: Koa.Context, next: Koa.Next): Promise<void> {
    count?.(ctx);
    log(ctx);
    const { requestId } = requestContext(ctx);
    if (options.defersHeaders) deferHeaders(ctx, [...names, 'X-Request-Id', requestId]);
    else ctx.set({ ...headers, 'X-Request-Id': requestId });
    try {
      limitHeaders(ctx);
      await assets(ctx, () => {
        requireHost(ctx);
        refuseNestedWellKnown(ctx);
        return next();
      });
      requireRoute(ctx);
    } catch (error) {
      await respondTo(ctx, error);
    }
    if (ctx.respond !== false) setDeferredHeaders(ctx);
  }

  return function hostPipeline(ctx, next) {
    requireOriginForm(ctx);
    if (isHealthCheck(ctx)) {
      ctx.set(headers);
      return respondWithHealth(ctx);
    }
    return trace ? trace(ctx, () => serve(ctx, next)) : serve(ctx, next);
  };
}

/** `/livez` and `/readyz` are served for any `Host`, because probes use IP addresses. */
export function isHealthCheck({ path }: Koa.Context): boolean {
  return path === '/livez' || path === '/readyz';
}

export function healthResponder({
  isReady,
  probeKeys = [],
  proxies = 0,
}: Pick<HostOptions, 'isReady' | 'probeKeys'> & { proxies?: number }) {
  return async (ctx: Koa.Context): Promise<void> => {
    const ready = ctx.path === '/livez' ? {} : await isReady().catch(() => undefined);
    ctx.status = ready ? 200 : 503;
    ctx.set('Cache-Control', 'no-store');
    const hasProbe = isValidProbe(probeKeys, ctx.get(PROBE_HEADER), Date.now() / 1000);
    if (hasProbe && ctx.get('Accept') === STREAM_TYPE) return respondWithProbeStream(ctx);
    const seen = hasProbe ? { seen: observedRequest(ctx, proxies) } : {};
    respondWithText(ctx, { status: ready ? 'ok' : 'unavailable', ...ready, ...seen });
  };
}

/**
 * Responds with JSON as text. For an object, Koa would first compare it with the global `Response`, which loads an HTTP client: 10 ms of the start
 * of a process.
 */
export function respondWithText(ctx: Koa.Context, body: object): void {
  ctx.type = 'json';
  ctx.body = JSON.stringify(body);
}

/** In hexadecimal, the twelve characters that the context promises. */
const REQUEST_ID_BYTES = 6;
const random = pooledRandom();

/** Returns a function that logs the request when it ends. */
function requestLogger({ name, logger, proxies }: HostOptions): (ctx: Koa.Context) => void {
  return (ctx) => {
    const started = performance.now();
    const request = requestContext(ctx);
    request.requestId = random(REQUEST_ID_BYTES).toString('hex');
    request.address = clientAddress(ctx, proxies);
    whenClosed(ctx, () => {
      const { requestId, address, failure } = request;
      const { status, reason } = outcomeOf(ctx);
      const level = status >= 500 || failure?.cause ? 'error' : (failure?.logLevel ?? 'info');
      if (!logger.isLevelEnabled(level)) return;
      logger[level](
        {
          host: name,
          requestId,
          method: ctx.method,
          path: redactedPath(ctx.path),
          status,
          milliseconds: Math.round(performance.now() - started),
          address,
          ...spanIds(ctx),
          ...(reason === undefined ? {} : { reason, detail: failure?.detail }),
          ...(failure?.cause ? { err: failure.cause } : {}),
        },
        'request',
      );
    });
  };
}

/** Replaces ids (long segments with capitals or digits), because some are secrets: an interaction's id is the value of its cookie. */
export function redactedPath(path: string): string {
  const isIdentifier = (text: string) => /[A-Z0-9]/.test(text);
  return path
    .slice(0, 500)
    .replace(/[\w~.-]{16,}/g, (text) => (isIdentifier(text) ? ':id' : text))
    .slice(0, 200);
}

export function handleErrors(options: Pick<HostOptions, 'respondToError'>): Koa.Middleware {
  const respondTo = errorResponder(options);
  return async function errors(ctx, next) {
    try {
      await next();
      requireRoute(ctx);
    } catch (error) {
      await respondTo(ctx, error);
    }
  };
}

function errorResponder({
  respondToError = respondWithJson,
}: Pick<HostOptions, 'respondToError'>): (ctx: Koa.Context, thrown: unknown) => Promise<void> {
  return async (ctx, thrown) => {
    const error = asHttpError(thrown);
    requestContext(ctx).failure = failureOf(error);
    // Clients probe well-known addresses for JSON, whatever their `Accept` says.
    await (isWellKnown(ctx.path) ? respondWithJson : respondToError)(ctx, error);
  };
}

/** Routers set 501 for a method that none of their routes has, even if no route has the path. */
function requireRoute(ctx: Koa.Context): void {
  if (ctx.respond === false || ctx.body !== undefined) return;
  const { status, matched = [] } = ctx;
  if (status === 404 || (status === 501 && matched.length === 0)) throw notFound();
  if (status === 405 || status === 501) throw methodNotAllowed();
}

const MAX_HEADERS = 100;
/** Below the limit of the listener, so that a browser with too many cookies gets a page, and the log a line. */
const MAX_HEADER_CHARACTERS = 16_384;
/** Ten times what browsers send. */
const MAX_NEGOTIATION_LENGTH = 2000;
const NEGOTIATION_HEADERS = ['accept', 'accept-charset', 'accept-encoding', 'accept-language'];

/**
 * Rejects too many or too large headers with 431 (RFC 6585 section 5). Ignores a preference that is too long (RFC 9110
 * section 12.1), because the parser of such headers takes time that grows with the square of their length.
 */
function limitHeaders({ req: { headers, rawHeaders, url = '' } }: Koa.Context): void {
  for (const name of NEGOTIATION_HEADERS)
    if ((headers[name]?.length ?? 0) > MAX_NEGOTIATION_LENGTH) delete headers[name];
  if (rawHeaders.length / 2 > MAX_HEADERS) {
    const message = `the request has more than ${MAX_HEADERS} headers`;
    throw new HttpError(431, 'invalid_request', message);
  }
  const size = rawHeaders.reduce((sum, text) => sum + text.length, url.length);
  if (size <= MAX_HEADER_CHARACTERS) return;
  const message = `the headers of the request have more than ${MAX_HEADER_CHARACTERS} characters; cookies of other websites on this domain count`;
  throw new HttpError(431, 'invalid_request', message, { about: 'headers_too_large' });
}

/**
 * No `form-action`: browsers apply it to the whole chain of redirects after consent, which ends at the client's own address or scheme.
 * No opener policy: clients that open sign-in in a popup would lose it.
 */
export function securityHeaders(url: string): Record<string, string> {
  const directives = {
    defaultSrc: ["'none'"],
    styleSrc: ["'self'"],
    imgSrc: ["'self'"],
    baseUri: ["'none'"],
    frameAncestors: ["'none'"],
  };
  const protect = helmet({
    contentSecurityPolicy: { useDefaults: false, directives },
    crossOriginOpenerPolicy: false,
    frameguard: { action: 'deny' },
    referrerPolicy: { policy: 'same-origin' },
    strictTransportSecurity: url.startsWith('https:') ? { maxAge: 31_536_000 } : false,
  });
  return {
    ...headersOf(protect),
    'Permissions-Policy': 'camera=(), geolocation=(), microphone=(), payment=()',
  };
}

type Middleware = (req: IncomingMessage, res: ServerResponse, next: () => void) => void;

/** Calls a middleware once for the headers that it sets on every response. */
function headersOf(middleware: Middleware): Record<string, string> {
  const headers: Record<string, string> = {};
  const res = {
    setHeader: (name: string, value: string) => {
      headers[name] = value;
    },
    removeHeader: () => {},
  };
  middleware({ headers: {} } as IncomingMessage, res as unknown as ServerResponse, () => {});
  return headers;
}
