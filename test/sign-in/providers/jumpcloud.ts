import type { Person, RecordedProvider } from './recorded-provider.ts';

const ISSUER = 'https://oauth.id.jumpcloud.com/';

const claims = ({ name, email, groups }: Person) => ({
  email,
  email_verified: true,
  given_name: name,
  family_name: 'Example',
  ...(groups.length === 0 ? {} : { groups: groups.length === 1 ? groups[0] : groups }),
});

export const jumpcloud: RecordedProvider = {
  name: 'JumpCloud',
  sources: [
    'https://jumpcloud.com/support/sso-with-oidc',
    'https://jumpcloud.com/support/oidc-attributes-claims',
    'https://github.com/goharbor/harbor/issues/20779 (recorded claims)',
    'https://github.com/goharbor/harbor/issues/22289 (one group is a string)',
    'https://www.ory.sh/docs/hydra (the server behind it: one method for each client, rotation)',
  ],
  steps: {
    'sign in': 'tested',
    groups: 'tested',
    email: 'tested',
    recheck: 'tested',
    logout: {
      because: 'sends no logout tokens',
      source: 'https://jumpcloud.com/support/sso-with-oidc',
    },
  },
  metadata: {
    issuer: ISSUER,
    authorization_endpoint: `${ISSUER}oauth2/auth`,
    token_endpoint: `${ISSUER}oauth2/token`,
    userinfo_endpoint: `${ISSUER}userinfo`,
    revocation_endpoint: `${ISSUER}oauth2/revoke`,
    end_session_endpoint: `${ISSUER}oauth2/sessions/logout`,
    jwks_uri: `${ISSUER}.well-known/jwks.json`,
    subject_types_supported: ['public'],
    response_types_supported: ['code', 'code id_token', 'id_token', 'token id_token', 'token'],
    grant_types_supported: 'authorization_code implicit client_credentials refresh_token'.split(
      ' ',
    ),
    response_modes_supported: ['query', 'fragment', 'form_post'],
    scopes_supported: ['offline_access', 'offline', 'openid', 'profile', 'email'],
    token_endpoint_auth_methods_supported:
      'client_secret_post client_secret_basic private_key_jwt none'.split(' '),
    id_token_signing_alg_values_supported: ['RS256'],
    claims_supported: ['sub'],
    code_challenge_methods_supported: ['plain', 'S256'],
  },
  permittedScopes: ['openid', 'profile', 'email', 'offline_access'],
  clientAuthentication: ['client_secret_basic'],
  idToken: (person) => ({
    ...claims(person),
    at_hash: '2hjz6ZvGBNOhUIKVjKstNQ',
    aud: ['gatehouse'],
    rat: 1_760_000_000,
    sid: person.session,
  }),
  userInfo: (person) => ({
    status: 200,
    body: { sub: person.subject, aud: ['gatehouse'], iss: ISSUER, ...claims(person) },
  }),
  refresh: { hasIdToken: true, rotates: true },
  refusals: [
    {
      why: 'the refresh token is not accepted any more',
      token: {
        status: 400,
        body: {
          error: 'invalid_grant',
          error_description:
            'The provided authorization grant (e.g., authorization code, resource owner credentials) or refresh token is invalid, expired, revoked, does not match the redirection URI used in the authorization request, or was issued to another client.',
        },
      },
      means: 'ended',
    },
  ],
  refusedSignIn: {
    error: 'access_denied',
    error_description: 'The resource owner or authorization server denied the request.',
  },
};
