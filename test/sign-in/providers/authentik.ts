import type { RecordedProvider } from './recorded-provider.ts';

const HOST = 'https://authentik.example.com';
const ISSUER = `${HOST}/application/o/gatehouse/`;

export const authentik: RecordedProvider = {
  name: 'authentik',
  sources: [
    'https://github.com/goauthentik/authentik authentik/providers/oauth2/views/provider.py (discovery)',
    'https://github.com/goauthentik/authentik authentik/providers/oauth2/id_token.py',
    'https://github.com/goauthentik/authentik authentik/providers/oauth2/views/token.py (the refusal)',
    'https://docs.goauthentik.io/add-secure-apps/providers/oauth2/frontchannel_and_backchannel_logout',
  ],
  steps: {
    'sign in': 'tested',
    groups: 'tested',
    email: {
      because: 'says that no address is verified; a scope mapping can change it',
      source: 'https://github.com/goauthentik/authentik/issues/16205',
    },
    recheck: 'tested',
    logout: 'tested',
  },
  metadata: {
    issuer: ISSUER,
    authorization_endpoint: `${HOST}/application/o/authorize/`,
    token_endpoint: `${HOST}/application/o/token/`,
    userinfo_endpoint: `${HOST}/application/o/userinfo/`,
    end_session_endpoint: `${ISSUER}end-session/`,
    jwks_uri: `${ISSUER}jwks/`,
    response_types_supported: ['code', 'id_token', 'id_token token', 'code token'],
    response_modes_supported: ['query', 'fragment', 'form_post'],
    grant_types_supported: ['authorization_code', 'refresh_token', 'implicit', 'password'],
    id_token_signing_alg_values_supported: ['RS256'],
    subject_types_supported: ['public'],
    token_endpoint_auth_methods_supported: ['client_secret_post', 'client_secret_basic'],
    acr_values_supported: ['goauthentik.io/providers/oauth2/default'],
    scopes_supported: ['openid', 'email', 'profile', 'offline_access'],
    claims_supported: ['sub', 'iss', 'aud', 'exp', 'iat', 'auth_time', 'acr', 'amr', 'nonce'],
    claims_parameter_supported: false,
    backchannel_logout_supported: true,
    backchannel_logout_session_supported: true,
  },
  idToken: ({ name, email, groups, session }) => ({
    acr: 'goauthentik.io/providers/oauth2/default',
    amr: ['pwd'],
    sid: session,
    email,
    email_verified: false,
    name,
    given_name: name,
    preferred_username: name,
    nickname: name,
    groups,
    uid: 'u',
  }),
  userInfo: ({ subject: sub, name, email, groups }) => ({
    status: 200,
    body: { sub, email, email_verified: false, name, preferred_username: name, groups },
  }),
  refresh: { hasIdToken: true, rotates: true },
  refusals: [
    {
      why: 'the person was deactivated',
      token: {
        status: 400,
        body: {
          error: 'invalid_grant',
          error_description:
            'The provided authorization grant or refresh token is invalid, expired, revoked, does not match the redirection URI used in the authorization request, or was issued to another client',
        },
      },
      means: 'ended',
    },
  ],
  refusedSignIn: {
    error: 'access_denied',
    error_description: 'The resource owner or authorization server denied the request',
  },
  logoutToken: ({ subject: sub, session }) => ({ sub, sid: session }),
};
