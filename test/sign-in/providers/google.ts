import type { RecordedProvider } from './recorded-provider.ts';

export const google: RecordedProvider = {
  name: 'Google',
  sources: [
    'https://accounts.google.com/.well-known/openid-configuration',
    'https://developers.google.com/identity/openid-connect/openid-connect',
    'https://github.com/akuity/kargo/issues/3005 (offline_access)',
    'https://github.com/doorkeeper-gem/doorkeeper-openid_connect/issues/49 (an ID token at a refresh)',
    'https://docs.litellm.ai/docs/proxy/admin_ui_sso (no ID token at a refresh)',
    'https://github.com/openclaw/gogcli/issues/338 (invalid_rapt)',
  ],
  steps: {
    'sign in': 'tested',
    groups: {
      because: 'has no groups in its tokens',
      source: 'https://developers.google.com/identity/openid-connect/openid-connect#obtainuserinfo',
    },
    email: 'tested',
    recheck: 'tested',
    logout: {
      because: 'sends no logout tokens',
      source: 'https://accounts.google.com/.well-known/openid-configuration',
    },
  },
  metadata: {
    issuer: 'https://accounts.google.com',
    authorization_endpoint: 'https://accounts.google.com/o/oauth2/v2/auth',
    device_authorization_endpoint: 'https://oauth2.googleapis.com/device/code',
    token_endpoint: 'https://oauth2.googleapis.com/token',
    userinfo_endpoint: 'https://openidconnect.googleapis.com/v1/userinfo',
    revocation_endpoint: 'https://oauth2.googleapis.com/revoke',
    jwks_uri: 'https://www.googleapis.com/oauth2/v3/certs',
    response_types_supported: ['code', 'token', 'id_token', 'code token', 'code id_token', 'none'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256'],
    scopes_supported: ['openid', 'email', 'profile'],
    token_endpoint_auth_methods_supported: ['client_secret_post', 'client_secret_basic'],
    claims_supported:
      'aud email email_verified exp family_name given_name iat iss name picture sub'.split(' '),
    code_challenge_methods_supported: ['plain', 'S256'],
  },
  permittedScopes: ['openid', 'email', 'profile'],
  issuesRefreshToken: (sent) =>
    sent.get('access_type') === 'offline' && sent.get('prompt') === 'consent',
  idToken: ({ name, email }) => ({
    azp: 'gatehouse',
    hd: 'example.com',
    email,
    email_verified: true,
    at_hash: 'HK6E_P6Dh8Y93mRNtsDB1Q',
    name,
    picture: 'https://lh3.googleusercontent.com/a/photo',
    given_name: name,
  }),
  userInfo: ({ subject: sub, name, email }) => ({
    status: 200,
    body: { sub, name, given_name: name, email, email_verified: true, hd: 'example.com' },
  }),
  refresh: { hasIdToken: true, rotates: false },
  // Reports differ.
  otherForms: [{ refresh: { hasIdToken: false, rotates: false } }],
  refusals: [
    {
      why: 'the session control of the organization asks for a new sign-in',
      token: {
        status: 400,
        body: {
          error: 'invalid_grant',
          error_description: 'reauth related error (invalid_rapt)',
          error_subtype: 'invalid_rapt',
          error_uri: 'https://support.google.com/a/answer/9368756',
        },
      },
      means: 'sign in again',
    },
    {
      why: 'the account was suspended',
      token: {
        status: 400,
        body: {
          error: 'invalid_grant',
          error_description: 'Token has been expired or revoked.',
        },
      },
      means: 'ended',
    },
  ],
  refusedSignIn: { error: 'access_denied' },
};
