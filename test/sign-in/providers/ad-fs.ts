import { NO_EMAIL_VERIFIED, type RecordedProvider } from './recorded-provider.ts';

const HOST = 'https://fs.example.com';

export const adFs: RecordedProvider = {
  name: 'AD FS',
  sources: [
    'https://learn.microsoft.com/windows-server/identity/ad-fs/development/ad-fs-logout-openid-connect (a discovery document)',
    'https://learn.microsoft.com/windows-server/identity/ad-fs/overview/ad-fs-faq (UserInfo has only sub)',
    'https://learn.microsoft.com/windows-server/identity/ad-fs/development/ad-fs-openid-connect-oauth-concepts',
    'https://learn.microsoft.com/windows-server/identity/ad-fs/overview/ad-fs-scenarios-for-developers (MSIS9615)',
    'https://github.com/redpanda-data/redpanda src/v/security/tests (an issuer in capitals)',
    'https://github.com/matomo-org/plugin-LoginOIDC/issues/106 (UserInfo answers 401)',
    'https://github.com/dexidp/dex/issues/2639 (one group is a string)',
  ],
  steps: {
    'sign in': 'tested',
    groups: 'tested',
    email: {
      because: NO_EMAIL_VERIFIED,
      source:
        'https://learn.microsoft.com/windows-server/identity/ad-fs/development/ad-fs-openid-connect-oauth-concepts',
    },
    recheck: 'tested',
    logout: {
      because: 'sends no logout tokens',
      source:
        'https://learn.microsoft.com/windows-server/identity/ad-fs/development/ad-fs-logout-openid-connect',
    },
  },
  metadata: {
    issuer: 'https://FS.EXAMPLE.COM/adfs',
    authorization_endpoint: `${HOST}/adfs/oauth2/authorize/`,
    token_endpoint: `${HOST}/adfs/oauth2/token/`,
    userinfo_endpoint: `${HOST}/adfs/userinfo`,
    jwks_uri: `${HOST}/adfs/discovery/keys`,
    end_session_endpoint: `${HOST}/adfs/oauth2/logout`,
    token_endpoint_auth_methods_supported:
      'client_secret_post client_secret_basic private_key_jwt windows_client_authentication'.split(
        ' ',
      ),
    response_types_supported: ['code', 'id_token', 'code id_token', 'id_token token', 'code token'],
    response_modes_supported: ['query', 'fragment', 'form_post'],
    grant_types_supported:
      'authorization_code refresh_token client_credentials urn:ietf:params:oauth:grant-type:jwt-bearer implicit password srv_challenge'.split(
        ' ',
      ),
    subject_types_supported: ['pairwise'],
    scopes_supported:
      'allatclaims email user_impersonation logon_cert aza profile vpn_cert winhello_cert openid'.split(
        ' ',
      ),
    id_token_signing_alg_values_supported: ['RS256'],
    access_token_issuer: 'http://FS.EXAMPLE.COM/adfs/services/trust',
    claims_supported: ['aud', 'iss', 'iat', 'exp', 'auth_time', 'nonce', 'sub', 'upn', 'sid'],
    microsoft_multi_refresh_token: true,
    frontchannel_logout_supported: true,
    frontchannel_logout_session_supported: true,
  },
  permittedScopes: ['openid', 'profile', 'email', 'allatclaims'],
  issuesRefreshToken: () => true,
  idToken: ({ name, email, groups, session }) => ({
    upn: email,
    unique_name: `EXAMPLE\\${name}`,
    sid: session,
    apptype: 'Confidential',
    authmethod: 'urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport',
    ver: '1.0',
    scp: 'openid profile email allatclaims',
    name,
    email,
    ...(groups.length === 0 ? {} : { groups: groups.length === 1 ? groups[0] : groups }),
  }),
  userInfo: () => ({ status: 401, body: {} }),
  refresh: { hasIdToken: true, rotates: false },
  refusals: [
    {
      why: 'the refresh token is not accepted any more',
      token: {
        status: 401,
        body: {
          error: 'invalid_grant',
          error_description:
            'MSIS9615: The refresh token received in refresh_token parameter has expired.',
        },
      },
      means: 'ended',
    },
  ],
  refusedSignIn: { error: 'access_denied', error_description: 'MSIS9603: access was denied.' },
};
