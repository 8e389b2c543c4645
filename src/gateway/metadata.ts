// Protected resource metadata (RFC 9728 section 2).
import type { Connector } from '../links/connector.ts';
import { connectLink } from '../links/connect-link.ts';
import { DPOP_ALGORITHMS } from '../dpop/proof.ts';
import { type DpopSettings, levelWithoutDpop } from '../dpop/required-levels.ts';
import { type Level, levelIds, levelsUpTo } from '../permission-levels.ts';

export const METADATA_PREFIX = '/.well-known/oauth-protected-resource';

export type Addresses = { resourceUrl: string; authUrl: string };
/** What the metadata depends on. */
export type Described = Addresses & DpopSettings;

/** The well-known part is between host and path (RFC 9728 section 3.1). */
export function metadataUrl({ resourceUrl }: Addresses, connector: Connector): string {
  return resourceUrl + METADATA_PREFIX + connectLink('', connector.id);
}

/** `dpop_bound_access_tokens_required` is true only if every token must be bound: the root also has minted tokens, which are exempt. */
export function connectorMetadata(
  settings: Described,
  connector: Connector,
): Record<string, unknown> {
  const resource = connectLink(settings.resourceUrl, connector.id);
  const levels = levelsUpTo(settings.levels, connector.level);
  const requiresDpop = levelWithoutDpop(settings, connector.level) === undefined;
  return {
    ...document(settings, resource, connector.name, levels),
    ...(requiresDpop ? { dpop_bound_access_tokens_required: true } : {}),
  };
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
