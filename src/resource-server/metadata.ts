// Protected resource metadata (RFC 9728 section 2) and the challenge that points to it (section 5.1).
import type { Connector } from '../connectors/connector.ts';
import { connectLink } from '../connectors/connect-link.ts';
import { DPOP_ALGORITHMS } from '../dpop/proof.ts';
import { type Level, LEVELS, levelsUpTo } from '../permission-level.ts';
import type { Scheme } from './bearer.ts';

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
    dpop_signing_alg_values_supported: [...DPOP_ALGORITHMS],
    resource_name: name,
  };
}

export type Challenge = {
  error?: 'invalid_token' | 'insufficient_scope' | 'invalid_dpop_proof' | 'use_dpop_nonce';
  scope: Level;
  /** How the token came, or should have. */
  scheme?: Scheme;
};

/**
 * The `WWW-Authenticate` of a connect link (RFC 6750 section 3, RFC 9449 section 7.1): everything a client needs to start. Clients that
 * did nothing with DPoP read nothing of it here: many take the first scheme that they find for the only one.
 */
export function challenge(
  addresses: Addresses,
  connector: Connector,
  { error, scope, scheme = 'Bearer' }: Challenge,
): string {
  const parts = [
    ...(error ? [`error="${error}"`] : []),
    `resource_metadata="${metadataUrl(addresses, connector)}"`,
    `scope="${scope}"`,
    ...(scheme === 'DPoP' ? [ALGORITHMS] : []),
  ];
  return `${scheme} ${parts.join(', ')}`;
}

const ALGORITHMS = `algs="${DPOP_ALGORITHMS.join(' ')}"`;

/** After the challenge of a client that has a bound token and sent it as a bearer token. */
export const ALSO_DPOP = `, DPoP ${ALGORITHMS}`;
