// Which redirect addresses a client may have (RFC 6749 section 3.1.2, RFC 8252 section 7.3): exact strings of an allow-list, and loopback.
import { looksAnswered } from '../../settings/redirect-uri.ts';

const LOOPBACK = /^http:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?([/?][!-~]*)?$/;
/** A fragment (RFC 6749 section 3.1.2), and what URL parsers disagree about. */
const MISREAD = /[#\\]/;
const MAX_LENGTH = 2000;

export type RedirectPolicy = {
  /** Hosted callbacks and what the operator added, compared as strings. */
  allowed: ReadonlySet<string>;
  /** Our own origins: a redirect there would put codes into our own logs, or loop. */
  ownOrigins: ReadonlySet<string>;
};

/** Loopback interface redirects, any port and path, with the host spelt as RFC 8252 does. */
export function isLoopbackRedirect(uri: string): boolean {
  return LOOPBACK.test(uri) && !MISREAD.test(uri) && URL.canParse(uri);
}

/** `documentUrl` is the client's id when it is a client ID metadata document, whose own https origin is accepted too. */
export function isAcceptedRedirect(
  policy: RedirectPolicy,
  uri: unknown,
  documentUrl?: string,
): uri is string {
  if (typeof uri !== 'string' || uri.length > MAX_LENGTH) return false;
  if (isOwnOrigin(policy, uri) || looksAnswered(uri)) return false;
  return policy.allowed.has(uri) || isLoopbackRedirect(uri) || isOnOrigin(uri, documentUrl);
}

export function isOwnOrigin({ ownOrigins }: RedirectPolicy, uri: string): boolean {
  const url = URL.parse(uri);
  if (!url) return false;
  return [...ownOrigins].some((own) => placeOf(new URL(own)) === placeOf(url));
}

/** The names of this computer are one place. */
function placeOf({ protocol, hostname, port }: URL): string {
  const host = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname) ? 'this computer' : hostname;
  return `${protocol}//${host}:${port}`;
}

function isOnOrigin(uri: string, documentUrl: string | undefined): boolean {
  const document = documentUrl === undefined ? null : URL.parse(documentUrl);
  const url = URL.parse(uri);
  if (!document || url?.protocol !== 'https:') return false;
  const isPlain = /^https:\/\/[!-~]+$/.test(uri) && !/[@*]/.test(uri) && !MISREAD.test(uri);
  return isPlain && url.origin === document.origin;
}

/** The engine takes an address that ends its host with a colon for the one without a port. */
export function hasEmptyPort(uri: string): boolean {
  return /^http:\/\/[^/?]*:([/?]|$)/i.test(uri);
}

/** What the person is told: host and port of an http(s) address, the scheme of an app's own. */
export function redirectDestination(uri: string): string {
  const url = URL.parse(uri);
  if (!url) return uri;
  return /^https?:$/.test(url.protocol) ? url.host : url.protocol.slice(0, -1);
}
