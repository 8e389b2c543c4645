// Authorization server metadata (RFC 8414 section 2), built from the settings.
import { DEVICE_CODE } from '../clients/clients.ts';
import { DPOP_ALGORITHMS } from '../dpop/proof.ts';
import { TOKEN_PATH } from '../settings/addresses.ts';
import { ASSERTION_ALGORITHMS } from '../settings/key-set.ts';
import { levelIds, type Levels, OFFLINE_ACCESS } from '../permission-levels.ts';

/** Paths of the endpoints, also in the engine's configuration. */
export const ENDPOINTS = {
  authorization: '/oauth/authorize',
  token: TOKEN_PATH,
  registration: '/oauth/register',
  revocation: '/oauth/revoke',
  introspection: '/oauth/introspect',
  jwks: '/oauth/jwks',
  deviceAuthorization: '/oauth/device',
} as const;

/** Where people enter the code of a device (RFC 8628 section 3.3). */
export const DEVICE_PATH = '/device';

export const METADATA_PATH = '/.well-known/oauth-authorization-server';

/** Clients that register themselves have no other methods. */
export const REGISTERED_AUTH_METHODS = [
  'none',
  'client_secret_basic',
  'client_secret_post',
] as const;

/** `private_key_jwt` (RFC 7523 section 2.2): clients of the settings, of metadata documents, and machines. */
export const CLIENT_AUTH_METHODS = [...REGISTERED_AUTH_METHODS, 'private_key_jwt'] as const;

/** RFC 6749 section 4.4. For machines. */
export const CLIENT_CREDENTIALS = 'client_credentials';

/** RFC 7523 section 2.1. Only assertions of the profile below are accepted. */
export const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const ID_JAG_PROFILE = 'urn:ietf:params:oauth:grant-profile:id-jag';

/** What depends on the settings. */
export type OptionalFeatures = {
  levels: Levels;
  /** Resource servers are configured for the introspection endpoint. */
  introspects: boolean;
  /** Trusted issuers of assertions about people are configured. Their names are not published. */
  acceptsAssertions: boolean;
  /** Some of them have workloads. */
  acceptsWorkloads: boolean;
  /** Devices without a browser may connect (RFC 8628). */
  acceptsDevices: boolean;
  /** Clients may register themselves. */
  registers: boolean;
  /** Some metadata document is accepted. */
  acceptsDocuments: boolean;
  /** Of the pages, as BCP 47 tags. */
  languages: readonly string[];
};

export function authorizationServerMetadata(
  authUrl: string,
  {
    levels,
    introspects,
    acceptsAssertions,
    acceptsWorkloads,
    acceptsDevices,
    registers,
    acceptsDocuments,
    languages,
  }: OptionalFeatures,
): Record<string, unknown> {
  return {
    issuer: authUrl,
    authorization_endpoint: authUrl + ENDPOINTS.authorization,
    token_endpoint: authUrl + ENDPOINTS.token,
    ...(registers ? { registration_endpoint: authUrl + ENDPOINTS.registration } : {}),
    revocation_endpoint: authUrl + ENDPOINTS.revocation,
    jwks_uri: authUrl + ENDPOINTS.jwks,
    ...(introspects ? introspection(authUrl) : {}),
    ...(acceptsDevices
      ? { device_authorization_endpoint: authUrl + ENDPOINTS.deviceAuthorization }
      : {}),
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: [
      'authorization_code',
      'refresh_token',
      CLIENT_CREDENTIALS,
      ...(acceptsAssertions || acceptsWorkloads ? [JWT_BEARER] : []),
      ...(acceptsDevices ? [DEVICE_CODE] : []),
    ],
    ...(acceptsAssertions ? { authorization_grant_profiles_supported: [ID_JAG_PROFILE] } : {}),
    code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: [...CLIENT_AUTH_METHODS],
    token_endpoint_auth_signing_alg_values_supported: [...ASSERTION_ALGORITHMS],
    revocation_endpoint_auth_methods_supported: [...CLIENT_AUTH_METHODS],
    revocation_endpoint_auth_signing_alg_values_supported: [...ASSERTION_ALGORITHMS],
    dpop_signing_alg_values_supported: [...DPOP_ALGORITHMS],
    scopes_supported: [...levelIds(levels), OFFLINE_ACCESS],
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: acceptsDocuments,
    ui_locales_supported: [...languages],
  };
}

/** Resource servers have secrets. */
function introspection(authUrl: string): Record<string, unknown> {
  return {
    introspection_endpoint: authUrl + ENDPOINTS.introspection,
    introspection_endpoint_auth_methods_supported: REGISTERED_AUTH_METHODS.filter(
      (method) => method !== 'none',
    ),
  };
}
