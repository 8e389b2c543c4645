import type { RecordedProvider } from './recorded-provider.ts';

const ISSUER = 'https://example.eu.auth0.com/';

export const auth0: RecordedProvider = {
  name: 'Auth0',
  sources: [
    'https://github.com/auth0/docs-v2 main/docs/authenticate/login/logout/back-channel-logout',
    'https://github.com/micronaut-projects/micronaut-security (a recorded discovery document)',
    'https://github.com/auth0/auth0-spa-js/issues/1525 (user is blocked)',
    'https://github.com/atinux/nuxt-auth-utils/issues/456 (error=unauthorized)',
  ],
  steps: {
    'sign in': 'tested',
    groups: 'tested',
    email: 'tested',
    recheck: 'tested',
    logout: 'tested',
  },
  metadata: {
    issuer: ISSUER,
    authorization_endpoint: `${ISSUER}authorize`,
    token_endpoint: `${ISSUER}oauth/token`,
    userinfo_endpoint: `${ISSUER}userinfo`,
    mfa_challenge_endpoint: `${ISSUER}mfa/challenge`,
    jwks_uri: `${ISSUER}.well-known/jwks.json`,
    scopes_supported:
      'openid profile offline_access name given_name family_name nickname email email_verified picture created_at identities'.split(
        ' ',
      ),
    response_types_supported: ['code', 'token', 'id_token', 'code token', 'code id_token'],
    response_modes_supported: ['query', 'fragment', 'form_post'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['HS256', 'RS256'],
    token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
    claims_supported: ['aud', 'auth_time', 'email', 'email_verified', 'exp', 'iat', 'iss', 'name'],
    request_uri_parameter_supported: false,
    backchannel_logout_supported: true,
    backchannel_logout_session_supported: true,
  },
  idToken: ({ name, email, groups, session }) => ({
    'https://example.com/groups': groups,
    nickname: name,
    name,
    picture: 'https://cdn.auth0.com/avatars/a.png',
    updated_at: '2026-11-25T10:00:00.000Z',
    email,
    email_verified: true,
    sid: session,
  }),
  userInfo: ({ subject: sub, name, email }) => ({
    status: 200,
    body: { sub, nickname: name, name, email, email_verified: true },
  }),
  refresh: { hasIdToken: true, rotates: true },
  refusals: [
    {
      why: 'the person was blocked',
      token: {
        status: 403,
        body: { error: 'invalid_grant', error_description: 'user is blocked' },
      },
      means: 'ended',
    },
  ],
  refusedSignIn: { error: 'unauthorized', error_description: 'user is blocked' },
  logoutToken: ({ subject: sub, session }) => ({
    sub,
    sid: session,
    trace_id: '894ac0f1b2c3d4e5',
  }),
};
