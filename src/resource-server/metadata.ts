// Protected resource metadata (RFC 9728 section 2).
import type { Connector } from '../connectors/connector.ts';
import { connectLink } from '../connectors/connect-link.ts';
import { DPOP_ALGORITHMS } from '../dpop/proof.ts';
import { type Level, levelIds, type Levels, levelsUpTo } from '../permission-levels.ts';

export const METADATA_PREFIX = '/.well-known/oauth-protected-resource';

export type Addresses = { resourceUrl: string; authUrl: string };
/** What the metadata depends on. */
export type Described = Addresses & { levels: Levels };

/** The well-known part is between host and path (RFC 9728 section 3.1). */
export function metadataUrl({ resourceUrl }: Addresses, connector: Connector): string {
  return resourceUrl + METADATA_PREFIX + connectLink('', connector.id);
}

export function connectorMetadata(
  { levels, ...addresses }: Described,
  connector: Connector,
): Record<string, unknown> {
  const resource = connectLink(addresses.resourceUrl, connector.id);
  return document(addresses, resource, connector.name, levelsUpTo(levels, connector.level));
}

export function rootMetadata(
  { levels, ...addresses }: Described,
  productName: string,
): Record<string, unknown> {
  return document(addresses, addresses.resourceUrl, productName, levelIds(levels));
}

function document(
  { authUrl }: Addresses,
  resource: string,
  name: string,
  scopes: Level[],
): Record<string, unknown> {
  return {
    resource,
    authorization_servers: [authUrl],
    scopes_supported: scopes,
    bearer_methods_supported: ['header'],
    dpop_signing_alg_values_supported: [...DPOP_ALGORITHMS],
    resource_name: name,
  };
}
