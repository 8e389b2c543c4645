// Redirect URIs that an operator may allow (RFC 8252 section 7, RFC 9700 section 2.1).
import { isLoopback } from './addresses.ts';

/** Schemes that run code, read files or open other programs. */
const NEVER = new Set(
  'javascript data file filesystem vbscript blob about view-source mailto intent smb ftp ws wss ms-msdt search-ms'
    .split(' ')
    .map((scheme) => `${scheme}:`),
);

export const REDIRECT_URI =
  'an https address, an http address on this computer (localhost, 127.0.0.1, [::1]) or the address of an app such as ' +
  'cursor://…, without user, fragment, wildcard or a parameter of an answer (code, error, state, iss …)';

/** RFC 6749 sections 4.1.2 and 4.1.2.1, RFC 9207 section 2. */
const RESPONSE_PARAMETERS = ['code', 'error', 'error_description', 'error_uri', 'state', 'iss'];

/** A redirect URI with a response parameter in its query could forge a response. */
export function hasResponseParameter(uri: string): boolean {
  const query = URL.parse(uri)?.searchParams;
  return RESPONSE_PARAMETERS.some((name) => query?.has(name));
}

export function isRedirectUri(text: string): boolean {
  const url = URL.parse(text);
  // Accept only printable ASCII that all URL parsers read alike.
  if (
    !url ||
    hasResponseParameter(text) ||
    /[^!-~]|[*#\\]/.test(text) ||
    /^[^/?]*\/\/[^/?]*@/.test(text)
  )
    return false;
  if (!['http:', 'https:'].includes(url.protocol)) return !NEVER.has(url.protocol);
  if (!/^https?:\/\/[^/]/i.test(text)) return false;
  return url.protocol === 'https:' || isLoopback(url.hostname);
}

export const REDIRECT_PATTERN = `${REDIRECT_URI}, or an https address that ends in /* for one more path segment`;

/** An https redirect URI whose last path segment is `*`. */
export function isRedirectPattern(text: string): boolean {
  return /^https:\/\/[^?]+\/\*$/.test(text) && isRedirectUri(text.slice(0, -1));
}

/** One path segment of unreserved characters (RFC 3986 section 2.3). URL parsers remove `.` and `..`. */
const SEGMENT = /^(?!\.{1,2}$)[A-Za-z0-9._~-]+$/;

/** Whether a redirect URI is one of a list, or matches a pattern in it. */
export function isListedRedirect(listed: readonly string[], uri: string): boolean {
  return listed.some((one) => (isRedirectPattern(one) ? matchesPattern(one, uri) : one === uri));
}

/** Whether a redirect URI matches a pattern. */
export function matchesPattern(pattern: string, uri: string): boolean {
  const prefix = pattern.slice(0, -1);
  return uri.startsWith(prefix) && SEGMENT.test(uri.slice(prefix.length));
}
