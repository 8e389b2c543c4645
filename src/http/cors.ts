import type Koa from 'koa';
import { addHeader } from './deferred-headers.ts';
import { HttpError } from './errors.ts';

/** Request headers of MCP clients, and of the libraries that they use. */
export const ALLOWED_HEADERS =
  'Authorization, DPoP, Content-Type, Accept, MCP-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-ID, User-Agent, traceparent, tracestate, baggage';
/** Response headers that MCP clients read. */
export const EXPOSED_HEADERS =
  'WWW-Authenticate, DPoP-Nonce, Retry-After, Mcp-Session-Id, MCP-Protocol-Version';

const LOOPBACK_ORIGIN = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/;
const PARAMETER_HEADER = /^mcp-param-[\w!#$%&'*+.^`|~-]+$/i;

/** The headers of responses to requests that every origin may send. */
const PUBLIC_HEADERS = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': EXPOSED_HEADERS,
};

/** Allows every origin, without credentials (Fetch standard section 3.3), and responds to preflight requests. */
export function allowAnyOrigin(methods: string): Koa.Middleware {
  return async function cors(ctx, next) {
    ctx.set(PUBLIC_HEADERS);
    if (ctx.method !== 'OPTIONS') return next();
    ctx.set('Access-Control-Allow-Methods', methods);
    ctx.set('Access-Control-Allow-Headers', ALLOWED_HEADERS);
    ctx.set('Access-Control-Max-Age', '3600');
    ctx.status = 204;
  };
}

/** The headers of responses to requests with or without `Origin`. */
const ANY_ORIGIN_HEADERS = Object.entries({
  Vary: 'Origin',
  'Access-Control-Expose-Headers': EXPOSED_HEADERS,
});

export type OriginPolicy = { allowed: ReadonlySet<string>; allowLoopback: boolean };

/** Rejects other web origins, against DNS rebinding (MCP, Streamable HTTP), and answers preflights. Clients that are not browsers send no `Origin`. */
export function requireAllowedOrigin({ allowed, allowLoopback }: OriginPolicy): Koa.Middleware {
  return function allowedOrigin(ctx, next) {
    const { origin } = ctx.req.headers;
    for (const [name, value] of ANY_ORIGIN_HEADERS) addHeader(ctx, name, value);
    if (origin === undefined) return next();
    if (!allowed.has(origin) && !(allowLoopback && LOOPBACK_ORIGIN.test(origin))) {
      throw new HttpError(403, 'forbidden_origin', 'calls from this web origin are not allowed');
    }
    ctx.set('Access-Control-Allow-Origin', origin);
    if (ctx.method !== 'OPTIONS' || !ctx.get('Access-Control-Request-Method')) return next();
    ctx.set('Access-Control-Allow-Methods', 'GET, POST, DELETE');
    ctx.set(
      'Access-Control-Allow-Headers',
      [ALLOWED_HEADERS, ...parameterHeadersOf(ctx)].join(', '),
    );
    ctx.set('Access-Control-Max-Age', '3600');
    ctx.status = 204;
    return undefined;
  };
}

/** Tools declare these headers (MCP 2026-07-28, SEP-2243), so no fixed list has them all. */
function parameterHeadersOf(ctx: Koa.Context): string[] {
  const names = ctx.get('Access-Control-Request-Headers').split(',');
  return names.map((name) => name.trim()).filter((name) => PARAMETER_HEADER.test(name));
}
