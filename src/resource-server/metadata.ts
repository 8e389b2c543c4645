// Protected resource metadata (RFC 9728 section 2) and the challenge that points to it (section 5.1).
import type { Connector } from '../connectors/connector.ts';
import { connectLink } from '../connectors/connect-link.ts';
import { type Level, LEVELS, levelsUpTo } from '../permission-level.ts';

export const METADATA_PREFIX = '/.well-known/oauth-protected-resource';

/** What a resource server has to know of its own and the authorization server's address. */
export type Addresses = { resourceUrl: string; authUrl: string };

/** RFC 9728 section 3.1: the well-known part goes between host and path. */
function metadataUrl({ resourceUrl }: Addresses, connector: Connector): string {
  return resourceUrl + METADATA_PREFIX + connectLink('', connector.id);
}

export function connectorMetadata(
  addresses: Addresses,
  connector: Connector,
): Record<string, unknown> {
  const resource = connectLink(addresses.resourceUrl, connector.id);
  return document(addresses, resource, connector.name, levelsUpTo(connector.level));
}

export function rootMetadata(addresses: Addresses, productName: string): Record<string, unknown> {
  return document(addresses, addresses.resourceUrl, productName, [...LEVELS]);
}

function document(
  { authUrl }: Addresses,
  resource: string,
  name: string,
  levels: Level[],
): Record<string, unknown> {
  return {
    resource,
    authorization_servers: [authUrl],
    scopes_supported: levels,
    bearer_methods_supported: ['header'],
    resource_name: name,
  };
}

export type Challenge = { error?: 'invalid_token' | 'insufficient_scope'; scope: Level };

/** The `WWW-Authenticate` of a connect link (RFC 6750 section 3): everything a client needs to start. */
export function challenge(
  addresses: Addresses,
  connector: Connector,
  { error, scope }: Challenge,
): string {
  const parts = [
    ...(error ? [`error="${error}"`] : []),
    `resource_metadata="${metadataUrl(addresses, connector)}"`,
    `scope="${scope}"`,
  ];
  return `Bearer ${parts.join(', ')}`;
}
