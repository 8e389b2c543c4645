// One host name and one spelling of every path: requests for anything else are refused, and no header can change our addresses.
import type Koa from 'koa';
import { HttpError, notFound } from './errors.ts';

const DECLARED_BY_PROXIES = [
  'forwarded',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-forwarded-port',
  'x-forwarded-for',
];

/** Other forms of a target are for proxies (RFC 9112 section 3.2), and reading the address in one may throw: they lead nowhere. */
export function requireOriginForm(ctx: Koa.Context, next: Koa.Next): Promise<void> {
  if (!ctx.req.url?.startsWith('/')) ctx.req.url = '*';
  return next();
}

/**
 * Refuses two hosts (400, RFC 9112 section 3.2), an unknown one (421, RFC 9110 section 15.5.20) and paths that are not in canonical form
 * (404). Afterwards host and scheme are those of the settings, whatever the client or a proxy said, because the engine builds its URLs
 * from them. Needs `app.proxy = true`.
 */
export function requireCanonicalHost(baseUrl: string): Koa.Middleware {
  const { host, protocol } = new URL(baseUrl);
  return function canonicalHost(ctx, next) {
    const { headers, headersDistinct, url = '' } = ctx.req;
    if ((headersDistinct.host ?? []).length > 1)
      throw new HttpError(400, 'invalid_request', 'send one Host header');
    if (headers.host?.toLowerCase() !== host || !url.startsWith('/')) {
      throw new HttpError(421, 'misdirected_request', 'this server does not answer for that host');
    }
    for (const name of DECLARED_BY_PROXIES) delete headers[name];
    headers['x-forwarded-proto'] = protocol.slice(0, -1);
    headers.host = host;
    const path = url.split('?', 1)[0] ?? '';
    // No path of ours needs an escape or a fragment: one that has any is a second spelling.
    if (/\/\/|\/\.{1,2}(\/|$)|[\\%#]/.test(path) || (path !== '/' && path.endsWith('/')))
      throw notFound();
    return next();
  };
}

/** The address of the client: the connection's, or what the outermost of `proxies` trusted proxies saw, counted from the right. */
export function clientAddress(ctx: Koa.Context, proxies: number): string {
  const connection = ctx.req.socket.remoteAddress ?? 'unknown';
  const declared = ctx.req.headers['x-forwarded-for'];
  if (proxies === 0 || declared === undefined) return connection;
  const hops = [...String(declared).split(','), connection].map((hop) => hop.trim());
  return hops.at(-1 - proxies) ?? hops[0] ?? connection;
}
