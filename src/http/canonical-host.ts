import type Koa from 'koa';
import { HttpError, notFound } from './errors.ts';
import { requestContext } from './request-context.ts';

const FORWARDING_HEADERS = [
  'forwarded',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-forwarded-port',
  'x-forwarded-for',
];

/** Koa reads an authority from these, finds no path or throws. */
const WITHOUT_PATH = /^\/\/.*[#\s]/;

/**
 * Replaces other forms of the request target (RFC 9112 section 3.2) by `*`, and one of which Koa finds no path by `//`, which is not found, because
 * Koa may throw when it parses them.
 */
export function requireOriginForm(ctx: Koa.Context): void {
  const { url = '' } = ctx.req;
  if (!url.startsWith('/')) ctx.req.url = '*';
  else if (WITHOUT_PATH.test(url)) ctx.req.url = '//';
}

/**
 * Rejects two `Host` headers (400, RFC 9112 section 3.2), an unknown host (421, RFC 9110 section 15.5.20) and a path that is not canonical
 * (404). For an unknown host, the request context gets the right address. Then sets host and scheme to those of the settings, because the engine builds its URLs from them. Needs `app.proxy = true`.
 */
export function canonicalHostCheck(baseUrl: string): (ctx: Koa.Context) => void {
  const { host, protocol } = new URL(baseUrl);
  const scheme = protocol.slice(0, -1);
  const isSameAuthority = authorityCheck(baseUrl);
  return (ctx) => {
    const { headers, rawHeaders, url = '' } = ctx.req;
    if (countHosts(rawHeaders) > 1)
      throw new HttpError(400, 'invalid_request', 'send exactly one Host header');
    if (!isSameAuthority(headers.host) || !url.startsWith('/')) {
      requestContext(ctx).rightAddress = rightAddress(baseUrl, url);
      throw new HttpError(421, 'misdirected_request', 'this server does not serve that host');
    }
    for (const name of FORWARDING_HEADERS) if (name in headers) delete headers[name];
    headers['x-forwarded-proto'] = scheme;
    headers.host = host;
    if (!isCanonicalPath(pathOf(url))) throw notFound();
  };
}

/** Whether a `Host` names the same authority: some clients and proxies write the default port of the scheme (RFC 9110 section 4.2.3). */
export function authorityCheck(baseUrl: string): (host: string | undefined) => boolean {
  const { host, port, protocol } = new URL(baseUrl);
  const withPort = `${host}:${protocol === 'https:' ? 443 : 80}`;
  return (given) => {
    const sent = given?.toLowerCase();
    return sent === host || (port === '' && sent === withPort);
  };
}

/** `headers` has only the first one, and `headersDistinct` is slow. */
function countHosts(rawHeaders: readonly string[]): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === 4 && name.toLowerCase() === 'host') count += 1;
  }
  return count;
}

function pathOf(url: string): string {
  return url.split('?', 1)[0] ?? '';
}

/** No canonical path contains an escape or a fragment. */
function isCanonicalPath(path: string): boolean {
  return !/\/\/|\/\.{1,2}(\/|$)|[\\%#]/.test(path) && (path === '/' || !path.endsWith('/'));
}

/** Without the query, which can contain codes. */
function rightAddress(baseUrl: string, url: string): string {
  const path = pathOf(url);
  return path.startsWith('/') && isCanonicalPath(path) ? baseUrl + path : `${baseUrl}/`;
}

/**
 * Returns the client's IP address: of the connection, or as the outermost of `proxies` trusted proxies reports it in `X-Forwarded-For`,
 * counted from the right.
 */
export function clientAddress(ctx: Koa.Context, proxies: number): string {
  const connection = ctx.req.socket.remoteAddress ?? 'unknown';
  const forwarded = ctx.req.headers['x-forwarded-for'];
  if (proxies === 0 || forwarded === undefined) return connection;
  const hops = [...String(forwarded).split(','), connection].map((hop) => hop.trim());
  return hops.at(-1 - proxies) ?? hops[0] ?? connection;
}
