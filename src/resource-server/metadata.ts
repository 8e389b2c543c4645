// Protected resource metadata (RFC 9728 section 2), and the challenge that points to it (section 5.1).
import type { Connector } from '../connectors/connector.ts';
import { connectLink } from '../connectors/connect-link.ts';
import { DPOP_ALGORITHMS } from '../dpop/proof.ts';
import { type Level, LEVELS, levelsUpTo } from '../permission-level.ts';
import type { Scheme } from './authenticate.ts';

export const METADATA_PREFIX = '/.well-known/oauth-protected-resource';

export type Addresses = { resourceUrl: string; authUrl: string };

/** The well-known part is between host and path (RFC 9728 section 3.1). */
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
  /** The scheme of the presented token. */
  scheme?: Scheme;
};

/**
 * The `WWW-Authenticate` header of a connect link (RFC 6750 section 3, RFC 9449 section 7.1). It names one scheme, because many clients read
 * only the first one.
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

/** Appended to the challenge if a bound token was sent as a bearer token. */
export const ALSO_DPOP = `, DPoP ${ALGORITHMS}`;
