// The connect link: the URL that a person pastes, the protected resource (RFC 9728) and the only audience (RFC 8707) of a connector's tokens.
import { CONNECTOR_ID } from './connector.ts';

export function connectLink(resourceUrl: string, connectorId: string): string {
  return `${resourceUrl}/connect/${connectorId}/mcp`;
}

/**
 * Canonicalises a resource indicator: scheme and host in lower case, no default port, no single trailing slash. Dot segments and percent
 * escapes are not resolved. Undefined if it cannot be a link: not http(s), user information, an empty path segment, a query or a fragment.
 */
export function canonicalResource(value: string): string | undefined {
  const [, scheme, authority, path] =
    /^(https?):\/\/([^/?#\\@\s]+)((?:\/[^?#\\\s]*)?)$/i.exec(value) ?? [];
  if (!scheme || !authority || path === undefined || path.includes('//')) return undefined;
  const protocol = scheme.toLowerCase();
  const host = authority.toLowerCase().replace(protocol === 'https' ? /:443$/ : /:80$/, '');
  return `${protocol}://${host}${path.replace(/\/$/, '')}`;
}

/** Returns the connector id if the resource indicator is a connect link of this server. */
export function connectorIdOf(resourceUrl: string, resource: string): string | undefined {
  const canonical = canonicalResource(resource);
  const id = canonical?.slice(`${resourceUrl}/connect/`.length, -'/mcp'.length);
  if (!id || !CONNECTOR_ID.test(id)) return undefined;
  return canonical === connectLink(resourceUrl, id) ? id : undefined;
}

/** What is wrong with an address that looks like a connect link, by the key of the texts of its page. */
export const LINK_MISTAKES = {
  link_has_more: 'a connect link ends with /mcp: remove what follows it from the address',
  link_incomplete: 'this is not a whole connect link, which ends with /connect/<id>/mcp',
} as const;
export type LinkMistake = keyof typeof LINK_MISTAKES;

/** `path` may have a query and a fragment. Undefined if it has the form of a connect link. */
export function linkMistake(path: string): LinkMistake | undefined {
  const [, more] = /^\/connect\/[^/?#]+\/mcp(.*)$/s.exec(path) ?? [];
  if (more === undefined) return 'link_incomplete';
  return more === '' ? undefined : 'link_has_more';
}

/** Undefined also for an address of another server. */
export function resourceMistake(resourceUrl: string, resource: string): LinkMistake | undefined {
  const url = URL.parse(resource);
  return url?.origin === new URL(resourceUrl).origin
    ? linkMistake(url.href.slice(url.origin.length))
    : undefined;
}
