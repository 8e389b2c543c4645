// A browser's cookie jar (RFC 6265 sections 5.1 to 5.4): by host and path, never by port, with Secure and cookie name prefixes.

type Cookie = {
  name: string;
  value: string;
  host: string;
  path: string;
  secure: boolean;
  /** Milliseconds since the epoch. */
  expiresAt: number;
};

export type CookieJar = Cookie[];

/** Browsers treat plain http to loopback as secure. */
function isSecure({ protocol, hostname }: URL): boolean {
  return protocol === 'https:' || hostname === 'localhost' || hostname === '127.0.0.1';
}

/** Stores the `Set-Cookie` headers of a response from `url`, except those that a browser would reject. */
export function storeCookies(jar: CookieJar, url: URL, headers: string[]): void {
  for (const header of headers) {
    const cookie = parseCookie(header, url);
    if (!cookie || !isAcceptable(cookie, url)) continue;
    const { name, host, path } = cookie;
    const known = jar.findIndex((c) => c.name === name && c.host === host && c.path === path);
    if (known >= 0) jar.splice(known, 1);
    if (cookie.expiresAt > Date.now()) jar.push(cookie);
  }
}

/** The `Cookie` header for a request to `url`, or an empty string. */
export function cookieHeader(jar: CookieJar, url: URL): string {
  return jar
    .filter(({ host, path, secure, expiresAt }) => {
      const matches = host === url.hostname && isUnder(url.pathname, path);
      return matches && (!secure || isSecure(url)) && expiresAt > Date.now();
    })
    .sort((a, b) => b.path.length - a.path.length)
    .map(({ name, value }) => `${name}=${value}`)
    .join('; ');
}

function parseCookie(header: string, url: URL): Cookie | undefined {
  const [pair = '', ...rest] = header.split(';').map((part) => part.trim());
  const [name, value] = splitAt(pair, '=');
  if (!name) return undefined;
  const attributes = new Map(
    rest.map((part) => {
      const [key, text] = splitAt(part, '=');
      return [key.toLowerCase(), text];
    }),
  );
  if (attributes.has('domain')) throw new Error(`the cookie ${name} goes to a whole domain`);
  const path = attributes.get('path');
  return {
    name,
    value,
    host: url.hostname,
    path: path?.startsWith('/') ? path : defaultPath(url.pathname),
    secure: attributes.has('secure'),
    expiresAt: expiry(attributes),
  };
}

function isAcceptable({ name, path, secure }: Cookie, url: URL): boolean {
  if (secure && !isSecure(url)) return false;
  if (name.startsWith('__Secure-')) return secure;
  return !name.startsWith('__Host-') || (secure && path === '/');
}

function expiry(attributes: Map<string, string>): number {
  const maxAge = attributes.get('max-age');
  if (maxAge) return Date.now() + Number(maxAge) * 1000;
  const expires = attributes.get('expires');
  return expires ? Date.parse(expires) : Infinity;
}

function defaultPath(pathname: string): string {
  return pathname.slice(0, pathname.lastIndexOf('/')) || '/';
}

function isUnder(pathname: string, path: string): boolean {
  return pathname === path || pathname.startsWith(path.endsWith('/') ? path : `${path}/`);
}

function splitAt(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}
