import type { RecordedProvider } from './recorded-provider.ts';

const ISSUER = 'https://authelia.example.com';

export const authelia: RecordedProvider = {
  name: 'Authelia',
  sources: [
    'https://www.authelia.com/integration/openid-connect/openid-connect-1.0-claims/ (which claims are only at UserInfo)',
    'https://www.authelia.com/configuration/identity-providers/openid-connect/clients/',
    'https://github.com/authelia/authelia internal/handlers/handler_oauth2_oidc_userinfo.go (a person who was removed)',
  ],
  steps: {
    'sign in': 'tested',
    groups: 'tested',
    email: 'tested',
    recheck: 'tested',
    logout: {
      because: 'sends no logout tokens',
      source: 'https://www.authelia.com/roadmap/active/openid-connect-1.0-provider/',
    },
  },
  metadata: {
    issuer: ISSUER,
    authorization_endpoint: `${ISSUER}/api/oidc/authorization`,
    token_endpoint: `${ISSUER}/api/oidc/token`,
    userinfo_endpoint: `${ISSUER}/api/oidc/userinfo`,
    jwks_uri: `${ISSUER}/jwks.json`,
    pushed_authorization_request_endpoint: `${ISSUER}/api/oidc/pushed-authorization-request`,
    subject_types_supported: ['public', 'pairwise'],
    response_types_supported: ['code', 'id_token', 'token', 'code token', 'code id_token'],
    response_modes_supported: ['form_post', 'query', 'fragment', 'jwt'],
    grant_types_supported: 'authorization_code implicit client_credentials refresh_token'.split(
      ' ',
    ),
    scopes_supported: ['offline_access', 'openid', 'profile', 'groups', 'email', 'address'],
    claims_supported: ['aud', 'amr', 'azp', 'client_id', 'exp', 'iat', 'iss', 'jti', 'rat', 'sub'],
    token_endpoint_auth_methods_supported:
      'client_secret_basic client_secret_post client_secret_jwt private_key_jwt none'.split(' '),
    id_token_signing_alg_values_supported: ['RS256', 'none'],
    userinfo_signing_alg_values_supported: ['RS256', 'none'],
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
    backchannel_logout_supported: false,
    frontchannel_logout_supported: false,
  },
  permittedScopes: ['openid', 'profile', 'email', 'groups', 'offline_access'],
  clientAuthentication: ['client_secret_basic'],
  idToken: () => ({ amr: ['pwd'], azp: 'gatehouse', jti: 'j', aud: ['gatehouse'] }),
  userInfo: ({ subject: sub, name, email, groups }) => ({
    status: 200,
    body: {
      sub,
      name,
      preferred_username: name,
      email,
      email_verified: true,
      groups,
      rat: 1_760_000_000,
    },
  }),
  refresh: { hasIdToken: true, rotates: true },
  // With `userinfo_signed_response_alg`.
  otherForms: [{ signsUserInfo: true }],
  refusals: [
    {
      why: 'the person was removed, so that UserInfo describes nobody',
      token: { status: 200, body: {} },
      userInfo: ({ subject: sub }) => ({
        status: 200,
        body: { iss: ISSUER, sub, aud: ['gatehouse'] },
      }),
      means: 'not entitled',
    },
  ],
  refusedSignIn: {
    error: 'access_denied',
    error_description: 'The resource owner or authorization server denied the request.',
  },
};
