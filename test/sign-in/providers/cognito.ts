import type { RecordedProvider } from './recorded-provider.ts';

const ISSUER = 'https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_AbCdEf123';
const DOMAIN = 'https://example.auth.eu-central-1.amazoncognito.com';

export const cognito: RecordedProvider = {
  name: 'Amazon Cognito',
  sources: [
    'https://docs.aws.amazon.com/cognito/latest/developerguide/amazon-cognito-user-pools-using-the-id-token.html',
    'https://docs.aws.amazon.com/cognito/latest/developerguide/userinfo-endpoint.html',
    'https://docs.aws.amazon.com/cognito/latest/developerguide/token-endpoint.html',
    'https://github.com/micronaut-projects/micronaut-security (a recorded discovery document)',
    'https://github.com/onyx-dot-app/onyx/issues/11931 (offline_access)',
  ],
  steps: {
    'sign in': 'tested',
    groups: 'tested',
    email: 'tested',
    recheck: 'tested',
    logout: {
      because: 'sends no logout tokens',
      source:
        'https://docs.aws.amazon.com/cognito/latest/developerguide/federation-endpoints-oauth-grants.html',
    },
  },
  metadata: {
    issuer: ISSUER,
    authorization_endpoint: `${DOMAIN}/oauth2/authorize`,
    token_endpoint: `${DOMAIN}/oauth2/token`,
    userinfo_endpoint: `${DOMAIN}/oauth2/userInfo`,
    jwks_uri: `${ISSUER}/.well-known/jwks.json`,
    id_token_signing_alg_values_supported: ['RS256'],
    response_types_supported: ['code', 'token'],
    scopes_supported: ['openid', 'email', 'phone', 'profile'],
    subject_types_supported: ['public'],
    token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
  },
  permittedScopes: ['openid', 'email', 'phone', 'profile'],
  issuesRefreshToken: () => true,
  idToken: ({ subject, name, email, groups }) => ({
    ...(groups.length === 0 ? {} : { 'cognito:groups': groups }),
    'cognito:username': subject,
    email_verified: true,
    origin_jti: 'o',
    event_id: 'e',
    token_use: 'id',
    name,
    email,
  }),
  userInfo: ({ subject: sub, name, email }) => ({
    status: 200,
    body: { sub, email_verified: 'true', name, email, username: sub },
  }),
  refresh: { hasIdToken: true, rotates: false },
  refusals: [
    {
      why: 'the person was disabled or signed out everywhere',
      token: { status: 400, body: { error: 'invalid_grant' } },
      means: 'ended',
    },
  ],
  refusedSignIn: { error: 'access_denied' },
};
