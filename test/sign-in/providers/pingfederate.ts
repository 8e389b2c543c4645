import { NO_EMAIL_VERIFIED, type Person, type RecordedProvider } from './recorded-provider.ts';

const ISSUER = 'https://sso.example.com:9031';

/** Values come from the directory as text, and one value of several as text, too. */
const claims = ({ name, email, groups }: Person) => ({
  name,
  email,
  ...(groups.length === 0 ? {} : { memberOf: groups.length === 1 ? groups[0] : groups }),
});

export const pingFederate: RecordedProvider = {
  name: 'PingFederate',
  sources: [
    'https://docs.pingidentity.com/pingfederate/latest/developers_reference_guide/pf_openid_provider_config_endpoint.html',
    'https://gist.github.com/kukat/ec81476a6e8c988d4ecff666ec48728d (a recorded discovery document)',
    'https://github.com/oauth2-proxy/oauth2-proxy/issues/3135 (memberOf)',
    'https://github.com/argoproj/argo-workflows/issues/7627 (one group is a string)',
    'https://docs.pingidentity.com/pingfederate/latest/developers_reference_guide/pf_asynch_front_channel_logout.html (the modes of logout)',
  ],
  steps: {
    'sign in': 'tested',
    groups: 'tested',
    email: {
      because: NO_EMAIL_VERIFIED,
      source:
        'https://docs.pingidentity.com/pingfederate/latest/administrators_reference_guide/pf_configuring_oidc_policies.html',
    },
    recheck: 'tested',
    logout: 'tested',
  },
  metadata: {
    version: '3.0',
    issuer: ISSUER,
    authorization_endpoint: `${ISSUER}/as/authorization.oauth2`,
    token_endpoint: `${ISSUER}/as/token.oauth2`,
    revocation_endpoint: `${ISSUER}/as/revoke_token.oauth2`,
    userinfo_endpoint: `${ISSUER}/idp/userinfo.openid`,
    introspection_endpoint: `${ISSUER}/as/introspect.oauth2`,
    jwks_uri: `${ISSUER}/pf/JWKS`,
    ping_revoked_sris_endpoint: `${ISSUER}/pf-ws/rest/sessionMgmt/revokedSris`,
    ping_end_session_endpoint: `${ISSUER}/idp/startSLO.ping`,
    scopes_supported: ['address', 'email', 'phone', 'openid', 'profile'],
    response_types_supported: ['code', 'token', 'id_token', 'code token', 'code id_token'],
    response_modes_supported: ['fragment', 'query', 'form_post'],
    grant_types_supported:
      'implicit authorization_code refresh_token client_credentials urn:pingidentity.com:oauth2:grant_type:validate_bearer'.split(
        ' ',
      ),
    subject_types_supported: ['public', 'pairwise'],
    id_token_signing_alg_values_supported: ['none', 'HS256', 'RS256', 'ES256', 'PS256'],
    token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
    claim_types_supported: ['normal'],
    claims_parameter_supported: false,
    claims_supported: ['address', 'email', 'email_verified', 'name', 'sub'],
    code_challenge_methods_supported: ['plain', 'S256'],
  },
  permittedScopes: ['openid', 'profile', 'email'],
  issuesRefreshToken: () => true,
  idToken: (person) => ({
    ...claims(person),
    jti: 'j',
    'pi.sri': person.session,
  }),
  userInfo: (person) => ({ status: 200, body: { sub: person.subject, ...claims(person) } }),
  // Its default: “Return ID token on refresh grant” is off.
  refresh: { hasIdToken: false, rotates: true },
  refusals: [
    {
      why: 'the grant was revoked',
      token: {
        status: 400,
        body: {
          error: 'invalid_grant',
          error_description: 'unknown, invalid, or expired refresh token',
        },
      },
      means: 'ended',
    },
  ],
  refusedSignIn: { error: 'access_denied', error_description: 'User denied the request' },
  logoutToken: ({ subject: sub }) => ({ sub }),
};
