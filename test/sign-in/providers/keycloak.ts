import type { RecordedProvider } from './recorded-provider.ts';

const ISSUER = 'https://login.example.com/realms/example';
const ENDPOINTS = `${ISSUER}/protocol/openid-connect`;

export const keycloak: RecordedProvider = {
  name: 'Keycloak',
  sources: [
    'https://github.com/keycloak/keycloak services/…/protocol/oidc/TokenManager.java (the refusals)',
    'https://github.com/keycloak/keycloak core/…/representations/LogoutToken.java',
    'https://www.keycloak.org/docs/latest/server_admin/#_oidc-logout',
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
    authorization_endpoint: `${ENDPOINTS}/auth`,
    token_endpoint: `${ENDPOINTS}/token`,
    userinfo_endpoint: `${ENDPOINTS}/userinfo`,
    end_session_endpoint: `${ENDPOINTS}/logout`,
    jwks_uri: `${ENDPOINTS}/certs`,
    grant_types_supported: ['authorization_code', 'implicit', 'refresh_token', 'password'],
    response_types_supported: ['code', 'none', 'id_token', 'code id_token'],
    subject_types_supported: ['public', 'pairwise'],
    id_token_signing_alg_values_supported: ['PS384', 'RS384', 'EdDSA', 'ES384', 'HS256', 'RS256'],
    token_endpoint_auth_methods_supported:
      'private_key_jwt client_secret_basic client_secret_post tls_client_auth'.split(' '),
    scopes_supported:
      'openid web-origins acr offline_access address microprofile-jwt phone roles basic email profile'.split(
        ' ',
      ),
    claims_supported: ['aud', 'sub', 'iss', 'auth_time', 'name', 'preferred_username', 'email'],
    code_challenge_methods_supported: ['plain', 'S256'],
    backchannel_logout_supported: true,
    backchannel_logout_session_supported: true,
    authorization_response_iss_parameter_supported: true,
  },
  permittedScopes: ['openid', 'profile', 'email', 'offline_access'],
  idToken: ({ name, email, groups, session }) => ({
    typ: 'ID',
    azp: 'gatehouse',
    sid: session,
    acr: '1',
    email_verified: true,
    name,
    groups,
    preferred_username: email,
    given_name: name,
    email,
  }),
  userInfo: ({ subject: sub, name, email, groups }) => ({
    status: 200,
    body: { sub, email_verified: true, name, groups, preferred_username: email, email },
  }),
  refresh: { hasIdToken: true, rotates: true },
  refusals: [
    {
      why: 'the person was disabled',
      token: {
        status: 400,
        body: { error: 'invalid_grant', error_description: 'User disabled' },
      },
      means: 'ended',
    },
  ],
  refusedSignIn: { error: 'access_denied' },
  logoutToken: ({ subject: sub, session }) => ({
    typ: 'Logout',
    aud: ['gatehouse'],
    sub,
    sid: session,
    events: {
      'http://schemas.openid.net/event/backchannel-logout': {},
      revoke_offline_access: true,
    },
  }),
};
