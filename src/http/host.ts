import { type KeyObject, randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import helmet from 'helmet';
import Koa from 'koa';
import type { Logger } from 'pino';
import { clientAddress, requireCanonicalHost, requireOriginForm } from './canonical-host.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Traces } from '../observability/tracing.ts';
import {
  asHttpError,
  HttpError,
  methodNotAllowed,
  notFound,
  type RespondToError,
  respondWithJson,
} from './errors.ts';
import { countRequests } from './request-metrics.ts';
import { isValidProbe, PROBE_HEADER, observedRequest } from './proxy-probe.ts';
import { spanIds, traceRequests } from './request-spans.ts';
import { requestContext } from './request-context.ts';
import { isWellKnown, refuseNestedWellKnown } from './well-known.ts';

export type HostOptions = {
  name: string;
  /** The public base URL. Requests for another host are rejected. */
  url: string;
  proxies: number;
  logger: Logger;
  metrics?: Metrics | undefined;
  traces?: Traces | undefined;
  /** Rejects while the process must not get traffic. */
  isReady: () => Promise<void>;
  respondToError?: RespondToError;
  /** Serves the files of error pages, for any `Host`. */
  assets?: Koa.Middleware;
  /** `/livez` describes the request to probes that are signed with one of these keys. */
  probeKeys?: readonly KeyObject[];
};

/** Creates an app with the middleware that all hosts share. The caller adds its own. */
export function createHost(options: HostOptions): Koa {
  const app = new Koa();
  app.proxy = true;
  // handleErrors handles all errors except those of sockets that closed early.
  app.on('error', (error: Error) => options.logger.debug({ err: error }, 'response not delivered'));
  app.use(requireOriginForm);
  app.use(securityHeaders(options.url));
  app.use(serveHealth(options));
  if (options.traces) app.use(traceRequests(options.name, options.url, options.traces));
  if (options.metrics) app.use(countRequests(options.name, options.metrics));
  app.use(logRequests(options));
  app.use(handleErrors(options));
  app.use(limitHeaders);
  if (options.assets) app.use(options.assets);
  app.use(requireCanonicalHost(options.url));
  app.use(refuseNestedWellKnown);
  return app;
}

/** Serves `/livez` and `/readyz` for any `Host`, because probes use IP addresses. */
export function serveHealth({
  isReady,
  probeKeys = [],
  proxies = 0,
}: Pick<HostOptions, 'isReady' | 'probeKeys'> & { proxies?: number }): Koa.Middleware {
  return async function health(ctx, next) {
    if (ctx.path !== '/livez' && ctx.path !== '/readyz') return next();
    const ready =
      ctx.path === '/livez' ||
      (await isReady().then(
        () => true,
        () => false,
      ));
    ctx.status = ready ? 200 : 503;
    ctx.set('Cache-Control', 'no-store');
    const hasProbe = isValidProbe(probeKeys, ctx.get(PROBE_HEADER), Date.now() / 1000);
    const seen = hasProbe ? { seen: observedRequest(ctx, proxies) } : {};
    ctx.body = { status: ready ? 'ok' : 'unavailable', ...seen };
  };
}

function logRequests({ name, logger, proxies }: HostOptions): Koa.Middleware {
  return async function requestLog(ctx, next) {
    const started = performance.now();
    const request = requestContext(ctx);
    request.requestId = randomUUID().slice(-12);
    request.address = clientAddress(ctx, proxies);
    ctx.set('X-Request-Id', request.requestId);
    const log = () => {
      const { requestId, address, failure } = request;
      const level = ctx.status >= 500 || failure?.cause ? 'error' : 'info';
      if (!logger.isLevelEnabled(level)) return;
      logger[level](
        {
          host: name,
          requestId,
          method: ctx.method,
          path: redactedPath(ctx.path),
          status: ctx.res.statusCode,
          milliseconds: Math.round(performance.now() - started),
          address,
          ...spanIds(ctx),
          ...(failure ? { reason: failure.code, detail: failure.detail } : {}),
          ...(failure?.cause ? { err: failure.cause } : {}),
        },
        'request',
      );
    };
    ctx.res.once('close', log);
    await next();
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

export function handleErrors({
  respondToError = respondWithJson,
}: Pick<HostOptions, 'respondToError'>): Koa.Middleware {
  return async function errors(ctx, next) {
    try {
      await next();
      if (ctx.respond !== false && ctx.body === undefined) throwRoutingError(ctx);
    } catch (thrown) {
      const error = asHttpError(thrown);
      requestContext(ctx).failure = {
        code: error.code,
        detail: error.message,
        ...(error.isLoggedAsError ? { cause: error.cause ?? error } : {}),
      };
      // Clients probe well-known addresses for JSON, whatever their `Accept` says.
      await (isWellKnown(ctx.path) ? respondWithJson : respondToError)(ctx, error);
    }
  };
}

/** Routers set 501 for a method that none of their routes has, even if no route has the path. */
function throwRoutingError({ status, matched = [] }: Koa.Context): void {
  if (status === 404 || (status === 501 && matched.length === 0)) throw notFound();
  if (status === 405 || status === 501) throw methodNotAllowed();
}

const MAX_HEADERS = 100;

/** Rejects too many headers with 431 (RFC 6585 section 5). Node limits their size to 16 kB. */
function limitHeaders(ctx: Koa.Context, next: Koa.Next): Promise<void> {
  if (ctx.req.rawHeaders.length / 2 > MAX_HEADERS) {
    const message = `the request has more than ${MAX_HEADERS} headers`;
    throw new HttpError(431, 'invalid_request', message);
  }
  return next();
}

/**
 * No `form-action`: browsers apply it to the whole chain of redirects after consent, which ends at the client's own address or scheme.
 * No opener policy: clients that open sign-in in a popup would lose it.
 */
export function securityHeaders(url: string): Koa.Middleware {
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
  const headers = {
    ...headersOf(protect),
    'Permissions-Policy': 'camera=(), geolocation=(), microphone=(), payment=()',
  };
  return function securityHeaders(ctx, next) {
    ctx.set(headers);
    return next();
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
