// Compares the addresses of client ID metadata documents with the list of their hosts in the settings.

/** Path separators, dots and `%` (a second escape): servers decode these escapes differently. */
const AMBIGUOUS_ESCAPE = /%(2f|5c|2e|25)/i;
/** Excludes control characters, spaces, `;` (path parameters) and empty segments, which servers ignore, truncate or merge. */
const PLAIN_PATH = /^(\/[\p{L}\p{M}\p{N}._~!$&'()*+,=:@-]+)+\/?$/u;
/** Two dots are the parent folder; some servers ignore dots at the end of a name. */
const DOT_SEGMENT = /(^|\/)\.+(\/|$)/;

/** `hosts` are host names, or host names with a path that ends in a slash. Paths are compared decoded. */
export function isListedDocument(hosts: readonly string[], url: string): boolean {
  const { host, pathname } = new URL(url);
  const path = plainPath(pathname);
  return hosts.some((entry) => {
    const slash = entry.indexOf('/');
    const [listedHost, listedPath] =
      slash < 0 ? [entry, '/'] : [entry.slice(0, slash), entry.slice(slash)];
    if (host !== listedHost) return false;
    return listedPath === '/' || path?.startsWith(listedPath) === true;
  });
}

/** The decoded path. Undefined if a server could read it as another path. */
function plainPath(pathname: string): string | undefined {
  if (AMBIGUOUS_ESCAPE.test(pathname)) return undefined;
  try {
    const path = decodeURIComponent(pathname);
    return PLAIN_PATH.test(path) && !DOT_SEGMENT.test(path) ? path : undefined;
  } catch {
    return undefined;
  }
}
