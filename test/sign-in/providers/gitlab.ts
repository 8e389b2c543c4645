import type { RecordedProvider } from './recorded-provider.ts';

const ISSUER = 'https://gitlab.example.com';

export const gitlab: RecordedProvider = {
  name: 'GitLab',
  sources: [
    'https://docs.gitlab.com/integration/openid_connect_provider/ (claims)',
    'https://gitlab.com/gitlab-org/gitlab config/initializers/doorkeeper_openid_connect.rb',
    'https://github.com/doorkeeper-gem/doorkeeper-openid_connect (no ID token without an active person)',
    'https://github.com/openshift/console/issues/10518 (offline_access)',
  ],
  steps: {
    'sign in': 'tested',
    groups: 'tested',
    email: 'tested',
    recheck: 'tested',
    logout: {
      because: 'sends no logout tokens',
      source: 'https://docs.gitlab.com/integration/openid_connect_provider/',
    },
  },
  metadata: {
    issuer: ISSUER,
    authorization_endpoint: `${ISSUER}/oauth/authorize`,
    token_endpoint: `${ISSUER}/oauth/token`,
    userinfo_endpoint: `${ISSUER}/oauth/userinfo`,
    revocation_endpoint: `${ISSUER}/oauth/revoke`,
    introspection_endpoint: `${ISSUER}/oauth/introspect`,
    jwks_uri: `${ISSUER}/oauth/discovery/keys`,
    scopes_supported: ['api', 'read_user', 'sudo', 'read_registry', 'openid', 'profile', 'email'],
    response_types_supported: ['code'],
    response_modes_supported: ['query', 'fragment', 'form_post'],
    grant_types_supported: [
      'authorization_code',
      'password',
      'client_credentials',
      'refresh_token',
    ],
    token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256'],
    claim_types_supported: ['normal'],
    claims_supported:
      'iss sub aud exp iat sub_legacy name nickname email email_verified website profile picture groups'.split(
        ' ',
      ),
    code_challenge_methods_supported: ['plain', 'S256'],
  },
  permittedScopes: ['openid', 'profile', 'email'],
  issuesRefreshToken: () => true,
  idToken: ({ subject, email, groups }) => ({
    sub_legacy: `legacy-${subject}`,
    email,
    email_verified: true,
    groups_direct: groups.slice(1),
  }),
  userInfo: ({ subject: sub, name, email, groups }) => ({
    status: 200,
    body: {
      sub,
      sub_legacy: `legacy-${sub}`,
      name,
      nickname: name,
      preferred_username: name,
      email,
      email_verified: true,
      profile: `${ISSUER}/${sub}`,
      groups,
    },
  }),
  refresh: { hasIdToken: true, rotates: true },
  refusals: [
    {
      why: 'the person was blocked',
      token: { status: 200, body: {} },
      userInfo: () => ({
        status: 401,
        body: {
          error: 'invalid_token',
          error_description: 'The access token is invalid',
          state: 'unauthorized',
        },
      }),
      means: 'sign in again',
    },
  ],
  refusedSignIn: {
    error: 'access_denied',
    error_description: 'The resource owner or authorization server denied the request.',
  },
};
