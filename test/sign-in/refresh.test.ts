// What the refusal of a refresh says about a person, at providers that refuse in different ways.
import { expect } from 'chai';
import { openIdentityProvider } from '../../src/sign-in/provider.ts';
import { identityProviderSchema } from '../../src/settings/identity-provider-schema.ts';
import {
  OPENID_CLIENT,
  type OpenIdProvider,
  startOpenIdProvider,
} from '../support/openid-provider.ts';

/** https://learn.microsoft.com/en-us/entra/msal/dotnet/advanced/exceptions */
const ENTRA = [
  'basic_action',
  'additional_action',
  'message_only',
  'consent_required',
  'token_expired',
  'bad_token',
  'user_password_expired',
];

type Refusal = [status: number, body: object | string];

const REFUSALS: Record<string, [what: string, refusal: Refusal][]> = {
  'a new sign-in': [
    ...ENTRA.map((suberror): [string, Refusal] => [
      `suberror ${suberror} of Entra ID`,
      [400, { error: 'invalid_grant', suberror, error_codes: [50076] }],
    ]),
    // https://support.google.com/a/answer/9368756
    [
      'the session length of a Google Workspace',
      [400, { error: 'invalid_grant', error_subtype: 'invalid_rapt' }],
    ],
    // https://github.com/dexidp/dex/blob/master/server/grants/refresh.go
    [
      'an unknown token at Dex',
      [400, { error: 'invalid_request', error_description: 'Refresh token is invalid.' }],
    ],
    ['interaction_required', [400, { error: 'interaction_required' }]],
    ['an unknown error', [403, { error: 'person_unknown' }]],
    ['status 403 without an error', [403, '']],
  ],
  'the end': [
    ['invalid_grant', [400, { error: 'invalid_grant' }]],
    ['another suberror', [400, { error: 'invalid_grant', suberror: 'protection_policy_required' }]],
    // https://auth0.com/docs/secure/tokens/refresh-tokens
    [
      'a blocked person at Auth0',
      [403, { error: 'invalid_grant', error_description: 'user is blocked' }],
    ],
    ['invalid_grant with status 401', [401, { error: 'invalid_grant' }]],
  ],
  'nothing about the person': [
    ['invalid_client', [401, { error: 'invalid_client' }]],
    ['unauthorized_client', [400, { error: 'unauthorized_client' }]],
    ['unsupported_grant_type', [400, { error: 'unsupported_grant_type' }]],
    ['invalid_scope', [400, { error: 'invalid_scope' }]],
    [
      'a missing client secret',
      [400, { error: 'invalid_request', error_description: 'client_secret is missing.' }],
    ],
    ['a wrong address', [404, '']],
    ['a rate limit', [429, { error: 'access_denied' }]],
    ['a rate limit with status 403', [403, { error: 'rate_limit_exceeded' }]],
    ['temporarily_unavailable', [400, { error: 'temporarily_unavailable' }]],
    // https://github.com/dexidp/dex/blob/master/server/grants/refresh.go
    ['a fault at Dex', [500, { error: 'invalid_request' }]],
    ['invalid_grant with status 500', [500, { error: 'invalid_grant' }]],
  ],
};

const ANSWERS: Record<string, string> = { 'sign-in': 'a new sign-in', ended: 'the end' };

describe('A refused refresh at a provider', () => {
  let provider: OpenIdProvider;
  before(async () => {
    provider = await startOpenIdProvider();
  });
  after(() => provider.stop());

  async function meaningOf([status, body]: Refusal): Promise<string | undefined> {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    provider.setBehaviour({
      responses: {
        '/token': (_req, res) =>
          res.writeHead(status, { 'content-type': 'application/json' }).end(text),
      },
    });
    const settings = { issuer: provider.issuer, ...OPENID_CLIENT, recheck: '24h' };
    const { recheck } = openIdentityProvider(
      { ...identityProviderSchema.parse(settings), embedded: false },
      'http://localhost:4000/interaction/callback',
    );
    const known = { name: 'Ada', emailVerified: false, groups: [] };
    const person = { issuer: provider.issuer, subject: 'subject-1', ...known };
    const answer = await recheck({ token: 'token', person, keep: async () => {} }).catch(
      () => undefined,
    );
    if (answer === undefined) return 'nothing about the person';
    return typeof answer === 'string' ? ANSWERS[answer] : 'an identity';
  }

  for (const [meaning, refusals] of Object.entries(REFUSALS))
    it(`CNX-16 means ${meaning} for ${refusals.map(([what]) => what).join(', ')}`, async () => {
      for (const [what, refusal] of refusals)
        expect(await meaningOf(refusal), what).to.equal(meaning);
    });
});
