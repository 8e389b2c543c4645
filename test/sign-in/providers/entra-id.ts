import { type Answer, NO_EMAIL_VERIFIED, type RecordedProvider } from './recorded-provider.ts';

const TENANT = '11111111-2222-3333-4444-555555555555';
const HOST = 'https://login.microsoftonline.com';

/** The body of an error, with the members that only Entra ID has. */
function refused(code: number, description: string, suberror?: string): Answer {
  return {
    status: 400,
    body: {
      error: 'invalid_grant',
      error_description: `AADSTS${code}: ${description} Trace ID: 0000 Correlation ID: 1111 Timestamp: 2026-11-25 10:00:00Z`,
      error_codes: [code],
      timestamp: '2026-11-25 10:00:00Z',
      trace_id: '0000',
      correlation_id: '1111',
      error_uri: `https://login.microsoftonline.com/error?code=${code}`,
      ...(suberror === undefined ? {} : { suberror }),
    },
  };
}

export const entraId: RecordedProvider = {
  name: 'Microsoft Entra ID',
  sources: [
    'https://learn.microsoft.com/entra/identity-platform/id-token-claims-reference',
    'https://learn.microsoft.com/entra/identity-platform/userinfo',
    'https://learn.microsoft.com/entra/identity-platform/reference-error-codes',
    'https://github.com/microsoftgraph/microsoft-graph-docs/issues/6311 (50076)',
    'https://github.com/microsoft/vscode-mssql/issues/22364 (70043)',
  ],
  steps: {
    'sign in': 'tested',
    groups: 'tested',
    email: {
      because: NO_EMAIL_VERIFIED,
      source: 'https://learn.microsoft.com/entra/identity-platform/id-token-claims-reference',
    },
    recheck: 'tested',
    logout: {
      because: 'sends no logout tokens',
      source:
        'https://learn.microsoft.com/entra/identity-platform/v2-protocols-oidc#single-sign-out',
    },
  },
  metadata: {
    issuer: `${HOST}/${TENANT}/v2.0`,
    authorization_endpoint: `${HOST}/${TENANT}/oauth2/v2.0/authorize`,
    token_endpoint: `${HOST}/${TENANT}/oauth2/v2.0/token`,
    userinfo_endpoint: 'https://graph.microsoft.com/oidc/userinfo',
    jwks_uri: `${HOST}/${TENANT}/discovery/v2.0/keys`,
    end_session_endpoint: `${HOST}/${TENANT}/oauth2/v2.0/logout`,
    token_endpoint_auth_methods_supported:
      'client_secret_post private_key_jwt client_secret_basic'.split(' '),
    response_modes_supported: ['query', 'fragment', 'form_post'],
    subject_types_supported: ['pairwise'],
    id_token_signing_alg_values_supported: ['RS256'],
    response_types_supported: ['code', 'id_token', 'code id_token', 'id_token token'],
    scopes_supported: ['openid', 'profile', 'email', 'offline_access'],
    request_uri_parameter_supported: false,
    http_logout_supported: true,
    frontchannel_logout_supported: true,
    claims_supported:
      'sub iss aud exp iat auth_time acr nonce preferred_username name tid ver at_hash c_hash email'.split(
        ' ',
      ),
    tenant_region_scope: 'EU',
    cloud_instance_name: 'microsoftonline.com',
    msgraph_host: 'graph.microsoft.com',
  },
  permittedScopes: ['openid', 'profile', 'email', 'offline_access'],
  idToken: ({ name, email, groups, subject }) => ({
    ver: '2.0',
    tid: TENANT,
    oid: `oid-of-${subject}`,
    rh: '0.A',
    uti: 'u',
    name,
    email,
    preferred_username: email,
    groups,
  }),
  userInfo: ({ subject: sub, name, email }) => ({
    status: 200,
    body: { sub, name, email, picture: 'https://graph.microsoft.com/v1.0/me/photo/$value' },
  }),
  refresh: { hasIdToken: true, rotates: true },
  refusals: [
    {
      why: 'multi-factor authentication is due',
      token: refused(50076, 'You must use multi-factor authentication.', 'basic_action'),
      means: 'sign in again',
    },
    {
      why: 'the sign-in frequency of a policy has passed',
      token: refused(70043, 'The refresh token has expired due to a check.', 'token_expired'),
      means: 'sign in again',
    },
    {
      why: 'the account was disabled',
      token: refused(50057, 'The user account is disabled.'),
      means: 'ended',
    },
  ],
  refusedSignIn: { error: 'access_denied', error_subcode: 'cancel' },
};
