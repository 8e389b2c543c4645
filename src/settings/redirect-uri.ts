// Which redirect addresses an operator may allow (RFC 8252 section 7, RFC 9700 section 2.1).
import { isLoopback } from './loopback.ts';

/** Schemes that run code, read files or open programs instead of reaching a client. */
const NEVER = new Set(
  'javascript data file filesystem vbscript blob about view-source mailto intent smb ftp ws wss ms-msdt search-ms'
    .split(' ')
    .map((scheme) => `${scheme}:`),
);

export const REDIRECT_URI =
  'an https address, an http address on this computer (localhost, 127.0.0.1, [::1]) or the address of an app such as ' +
  'cursor://…, without user, fragment or wildcard';

export function isRedirectUri(text: string): boolean {
  const url = URL.parse(text);
  // Printable ASCII only, and nothing that one parser reads differently from another.
  if (!url || /[^!-~]|[*#\\]/.test(text) || /^[^/?]*\/\/[^/?]*@/.test(text)) return false;
  if (!['http:', 'https:'].includes(url.protocol)) return !NEVER.has(url.protocol);
  if (!/^https?:\/\/[^/]/i.test(text)) return false;
  return url.protocol === 'https:' || isLoopback(url.hostname);
}
