// Accepted redirect URIs (RFC 6749 section 3.1.2, RFC 8252 section 7.3): an allow-list of exact strings, and loopback.
import { lruCache } from '../../lru-cache.ts';
import { hasResponseParameter, matchesPattern } from '../../settings/redirect-uri.ts';

const LOOPBACK = /^http:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?([/?][!-~]*)?$/;
/** Fragments (RFC 6749 section 3.1.2), and backslashes, which URL parsers read differently. */
const FORBIDDEN = /[#\\]/;
const MAX_LENGTH = 2000;

export type RedirectPolicy = {
  /** The callbacks of apps and the operator's additions, compared as strings. */
  allowed: ReadonlySet<string>;
  /** Those that end in `/*`. */
  patterns: readonly string[];
  /** A redirect to one of our origins would write codes to our logs, or loop. */
  ownOrigins: ReadonlySet<string>;
  /** Clients may ask for the device grant, and then need no redirect URI. */
  acceptsDevices?: boolean;
};

/** Accepts any port and path, and the hosts of RFC 8252. */
export function isLoopbackRedirect(uri: string): boolean {
  return LOOPBACK.test(uri) && !FORBIDDEN.test(uri) && URL.canParse(uri);
}

/** `documentUrl` is the id of a client with a metadata document. Redirects to its own https origin are accepted too. */
export function isAcceptedRedirect(
  policy: RedirectPolicy,
  uri: unknown,
  documentUrl?: string,
): uri is string {
  if (typeof uri !== 'string' || uri.length > MAX_LENGTH) return false;
  const accepted = acceptedBy.get(policy) ?? lruCache<true>(MAX_ACCEPTED);
  acceptedBy.set(policy, accepted);
  const name = JSON.stringify([uri, documentUrl]);
  if (accepted.has(name)) return true;
  if (isOwnOrigin(policy, uri) || hasResponseParameter(uri)) return false;
  const isAccepted =
    isListed(policy, uri) || isLoopbackRedirect(uri) || isOnOrigin(uri, documentUrl);
  if (isAccepted) accepted.set(name, true);
  return isAccepted;
}

/** Those of each client are looked at in every request of it, and a policy never changes. */
const acceptedBy = new WeakMap<RedirectPolicy, ReturnType<typeof lruCache<true>>>();
const MAX_ACCEPTED = 1000;

function isListed({ allowed, patterns }: RedirectPolicy, uri: string): boolean {
  return allowed.has(uri) || patterns.some((pattern) => matchesPattern(pattern, uri));
}

export function isOwnOrigin({ ownOrigins }: RedirectPolicy, uri: string): boolean {
  const url = URL.parse(uri);
  if (!url) return false;
  return [...ownOrigins].some((own) => originOf(new URL(own)) === originOf(url));
}

/** All loopback hosts count as one, under a name that no host can have. */
function originOf({ protocol, hostname, port }: URL): string {
  const host = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname) ? 'this computer' : hostname;
  return `${protocol}//${host}:${port}`;
}

function isOnOrigin(uri: string, documentUrl: string | undefined): boolean {
  const document = documentUrl === undefined ? null : URL.parse(documentUrl);
  const url = URL.parse(uri);
  if (!document || url?.protocol !== 'https:') return false;
  const isPlain = /^https:\/\/[!-~]+$/.test(uri) && !/[@*]/.test(uri) && !FORBIDDEN.test(uri);
  return isPlain && url.origin === document.origin;
}

/** The engine treats an empty port as no port. */
export function hasEmptyPort(uri: string): boolean {
  return /^http:\/\/[^/?]*:([/?]|$)/i.test(uri);
}

/** Returns what pages show: host and port of an http(s) URI, the scheme of any other. */
export function redirectDestination(uri: string): string {
  const url = URL.parse(uri);
  if (!url) return uri;
  return /^https?:$/.test(url.protocol) ? url.host : url.protocol.slice(0, -1);
}
