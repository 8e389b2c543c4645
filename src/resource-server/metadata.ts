// Protected resource metadata (RFC 9728 section 2).
import type { Connector } from '../connectors/connector.ts';
import { connectLink } from '../connectors/connect-link.ts';
import { DPOP_ALGORITHMS } from '../dpop/proof.ts';
import { type Level, LEVELS, levelsUpTo } from '../permission-level.ts';

export const METADATA_PREFIX = '/.well-known/oauth-protected-resource';

export type Addresses = { resourceUrl: string; authUrl: string };

/** The well-known part is between host and path (RFC 9728 section 3.1). */
export function metadataUrl({ resourceUrl }: Addresses, connector: Connector): string {
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
    dpop_signing_alg_values_supported: [...DPOP_ALGORITHMS],
    resource_name: name,
  };
}
