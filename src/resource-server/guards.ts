// What is settled about a call before its token is looked at: where it comes from, and whether the connector is there.
import type Koa from 'koa';
import { type Connector, connectorState } from '../connectors/connector.ts';
import { EXPOSED, HEADERS } from '../http/cors.ts';
import { HttpError, notFound } from '../http/errors.ts';

const LOOPBACK_ORIGIN = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/;
const PARAMETER_HEADER = /^mcp-param-[\w!#$%&'*+.^`|~-]+$/i;
export type OriginPolicy = { allowed: ReadonlySet<string>; allowLoopback: boolean };

/** MCP, Streamable HTTP, security: a foreign `Origin` is refused, which is what stops DNS rebinding. Programs send none. */
export function requireKnownOrigin({ allowed, allowLoopback }: OriginPolicy): Koa.Middleware {
  return function knownOrigin(ctx, next) {
    const { origin } = ctx.req.headers;
    ctx.set('Vary', 'Origin');
    ctx.set('Access-Control-Expose-Headers', EXPOSED);
    if (origin === undefined) return next();
    if (!allowed.has(origin) && !(allowLoopback && LOOPBACK_ORIGIN.test(origin))) {
      throw new HttpError(403, 'forbidden_origin', 'calls from this web origin are not allowed');
    }
    ctx.set('Access-Control-Allow-Origin', origin);
    if (ctx.method !== 'OPTIONS' || !ctx.get('Access-Control-Request-Method')) return next();
    ctx.set('Access-Control-Allow-Methods', 'GET, POST, DELETE');
    ctx.set('Access-Control-Allow-Headers', [HEADERS, ...parameterHeadersOf(ctx)].join(', '));
    ctx.set('Access-Control-Max-Age', '3600');
    ctx.status = 204;
    return undefined;
  };
}

/** The tools of an MCP server name these headers (MCP 2026-07-28, SEP-2243), so that no list can have them all. */
function parameterHeadersOf(ctx: Koa.Context): string[] {
  const names = ctx.get('Access-Control-Request-Headers').split(',');
  return names.map((name) => name.trim()).filter((name) => PARAMETER_HEADER.test(name));
}

/** 404 for a link that never was, 410 for one that is over: signing in again helps with neither. Used up is neither. */
export function requireUsableConnector(connector: Connector | undefined, now: number): Connector {
  if (!connector) throw notFound('there is no such connect link; check that it was copied whole');
  const state = connectorState(connector, now);
  if (state === 'revoked') throw gone('this connect link was revoked; ask for a fresh one');
  if (state === 'expired') throw gone('this connect link has expired; ask for a fresh one');
  return connector;
}

function gone(message: string): HttpError {
  return new HttpError(410, 'gone', message);
}
