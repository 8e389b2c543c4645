import type { Person, RecordedProvider } from './recorded-provider.ts';

const ISSUER = 'https://example.okta.com';

const idToken = ({ name, email }: Person) => ({
  ver: 1,
  amr: ['pwd'],
  idp: '00o1a2b3c4',
  name,
  email,
  preferred_username: email,
});

/** The org authorization server. Its documents differ on the code flow: “thin” ID tokens, with the rest at UserInfo, or groups in them. */
export const okta: RecordedProvider = {
  name: 'Okta',
  sources: [
    'https://developer.okta.com/docs/concepts/api-access-management/ (thin and fat ID tokens)',
    'https://developer.okta.com/docs/guides/customize-tokens-groups-claim/main/ (groups in the ID token)',
    'https://developer.okta.com/docs/guides/refresh-tokens/main/',
    'https://github.com/okta/okta-react-native/issues/287 (the refusal)',
  ],
  steps: {
    'sign in': 'tested',
    groups: 'tested',
    email: 'tested',
    recheck: 'tested',
    logout: {
      because: 'sends no logout tokens',
      source: 'https://developer.okta.com/docs/guides/single-logout/openidconnect/main/',
    },
  },
  metadata: {
    issuer: ISSUER,
    authorization_endpoint: `${ISSUER}/oauth2/v1/authorize`,
    token_endpoint: `${ISSUER}/oauth2/v1/token`,
    userinfo_endpoint: `${ISSUER}/oauth2/v1/userinfo`,
    jwks_uri: `${ISSUER}/oauth2/v1/keys`,
    registration_endpoint: `${ISSUER}/oauth2/v1/clients`,
    response_types_supported: ['code', 'id_token', 'code id_token', 'code token'],
    grant_types_supported: ['authorization_code', 'implicit', 'refresh_token', 'password'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256'],
    scopes_supported: 'openid email profile address phone offline_access groups'.split(' '),
    token_endpoint_auth_methods_supported:
      'client_secret_basic client_secret_post client_secret_jwt private_key_jwt none'.split(' '),
    claims_supported: ['iss', 'ver', 'sub', 'aud', 'iat', 'exp', 'jti', 'auth_time', 'amr', 'idp'],
    code_challenge_methods_supported: ['S256'],
  },
  permittedScopes: ['openid', 'email', 'profile', 'offline_access', 'groups'],
  idToken,
  userInfo: ({ subject: sub, name, email, groups }) => ({
    status: 200,
    body: {
      sub,
      name,
      locale: 'en-US',
      email,
      preferred_username: email,
      zoneinfo: 'America/Los_Angeles',
      updated_at: 1_760_000_000,
      email_verified: true,
      groups,
    },
  }),
  refresh: { hasIdToken: true, rotates: false },
  otherForms: [
    { idToken: (person) => ({ ...idToken(person), email_verified: true, groups: person.groups }) },
  ],
  refusals: [
    {
      why: 'the person was deactivated',
      token: {
        status: 400,
        body: {
          error: 'invalid_grant',
          error_description: 'The refresh token is invalid or expired.',
        },
      },
      means: 'ended',
    },
  ],
  refusedSignIn: {
    error: 'access_denied',
    error_description: 'User is not assigned to the client application.',
  },
};
