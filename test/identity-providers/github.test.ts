// Signing in at GitHub (RFC 6749 section 4.1, RFC 7636): how it is asked, what is believed of its answers, and what a fault of it does.
import { expect } from 'chai';
import { openIdentityProvider } from '../../src/identity-providers/provider.ts';
import { createLoginState } from '../../src/identity-providers/provider.ts';
import { HttpError } from '../../src/http/errors.ts';
import { identityProviderSchema as settingsSchema } from '../../src/settings/identity-provider-schema.ts';
import {
  type Github,
  GITHUB_CLIENT,
  type GithubBehaviour,
  startGithub,
} from '../support/github.ts';

const CALLBACK = 'http://localhost:4000/interaction/callback/github';
const API = '/api/v3';

describe('GitHub', () => {
  let github: Github;
  before(async () => {
    github = await startGithub();
  });
  beforeEach(() => github.setBehaviour({}));
  after(() => github.stop());

  function open(more: object = {}) {
    const settings = { kind: 'github', issuer: github.issuer, ...GITHUB_CLIENT, ...more };
    return openIdentityProvider({ ...settingsSchema.parse(settings), embedded: false }, CALLBACK);
  }

  async function identify(more: object = {}, change: (callback: URL) => void = () => {}) {
    const checks = createLoginState('flow-0123456789abcdef');
    const provider = open(more);
    const callback = github.approve(await provider.authorizationUrl(checks));
    change(callback);
    return provider.identify(callback.search, checks);
  }

  async function refusal(...parameters: Parameters<typeof identify>): Promise<HttpError> {
    const error: unknown = await identify(...parameters).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (!(error instanceof HttpError))
      throw new Error(`not refused in words for a page: ${String(error)}`);
    return error;
  }

  it('is asked with PKCE S256 and state, for addresses, and for organizations only when they count', async () => {
    const checks = createLoginState('flow-0123456789abcdef');
    const url = await open().authorizationUrl(checks);
    expect(url.origin + url.pathname).to.equal(`${github.issuer}/login/oauth/authorize`);
    expect(Object.fromEntries(url.searchParams)).to.include({
      redirect_uri: CALLBACK,
      client_id: GITHUB_CLIENT.clientId,
      response_type: 'code',
      scope: 'read:user user:email',
      state: checks.state,
      code_challenge_method: 'S256',
    });
    expect(url.searchParams.has('prompt')).to.equal(false);
    const wanting = await open({ organizations: true }).authorizationUrl(checks);
    expect(wanting.searchParams.get('scope')).to.include('read:org');
  });

  it('lives at github.com unless it is a server of one’s own', async () => {
    const url = await open({ issuer: undefined }).authorizationUrl(createLoginState('flow'));
    expect(url.origin).to.equal('https://github.com');
  });

  it('lists its accounts when another is wanted, and is told the one that the app named', async () => {
    const checks = createLoginState('flow-0123456789abcdef');
    for (const prompt of ['login', 'switch'] as const)
      expect(
        (await open().authorizationUrl(checks, { prompt })).searchParams.get('prompt'),
      ).to.equal('select_account');
    const { searchParams } = await open().authorizationUrl(checks, { loginHint: 'octocat' });
    expect(searchParams.get('login')).to.equal('octocat');
  });

  it('says who it is by a number that nobody else gets, with the first address and whether it was verified', async () => {
    expect(await identify()).to.deep.equal({
      issuer: github.issuer,
      subject: '583231',
      name: 'Ada Lovelace',
      email: 'ada@example.com',
      emailVerified: true,
      groups: [],
    });
    expect(github.requests.filter((path) => path.includes('orgs'))).to.deep.equal([]);
  });

  const unverified = [{ email: 'boss@example.com', primary: true, verified: false }];
  const several = [
    { email: 'ada@example.org', primary: true, verified: true },
    { email: 'boss@example.com', primary: false, verified: false },
    { email: 'Ada@Example.com', primary: false, verified: true },
  ];
  const PEOPLE: Record<string, [GithubBehaviour, settings: object, identity: object]> = {
    'who has no name by the login': [{ user: { name: null } }, {}, { name: 'octocat' }],
    'without a verified address as one': [
      { emails: unverified },
      {},
      { email: 'boss@example.com', emailVerified: false },
    ],
    'without any address as one': [{ emails: [] }, {}, { emailVerified: false }],
    'with several addresses by the first': [{ emails: several }, {}, { email: 'ada@example.org' }],
    'with an address at a domain of the settings by that one, when it was verified': [
      { emails: several },
      { emailDomains: ['example.com'] },
      { email: 'Ada@Example.com', emailVerified: true },
    ],
    'whose address at a domain of the settings is not verified by the first': [
      { emails: [...unverified.map((one) => ({ ...one, primary: false })), several[0]!] },
      { emailDomains: ['example.com'] },
      { email: 'ada@example.org', emailVerified: true },
    ],
  };
  for (const [who, [behaviour, settings, identity]] of Object.entries(PEOPLE)) {
    it(`describes somebody ${who}`, async () => {
      github.setBehaviour(behaviour);
      expect(await identify(settings)).to.deep.include(identity);
    });
  }

  it('ignores an address that is too long, because its beginning is another one', async () => {
    const email = `${'a'.repeat(308)}@example.com.evil.example`;
    github.setBehaviour({ emails: [{ email, primary: true, verified: true }] });
    const { email: found, emailVerified } = await identify();
    expect([found, emailVerified]).to.deep.equal([undefined, false]);
  });

  it('never vouches for the address on the profile, which anybody may write', async () => {
    github.setBehaviour({ user: { email: 'boss@example.com' }, emails: [] });
    expect(await identify()).to.not.have.property('email');
  });

  it('has organizations for groups when they are wanted, all of them', async () => {
    const organizations = Array.from({ length: 130 }, (_, n) => `organization-${n}`);
    github.setBehaviour({ organizations });
    const identity = await identify({ organizations: true });
    expect(identity.groups).to.deep.equal(organizations);
    expect(identity.organizations).to.deep.equal(
      organizations.map((login, n) => ({ login, id: n + 1 })),
    );
  });

  const FAULTS: Record<string, GithubBehaviour> = {
    'the token': { responses: { '/login/oauth/access_token': { status: 503 } } },
    'the person': { responses: { [`${API}/user`]: { status: 502 } } },
    'the addresses': { responses: { [`${API}/user/emails`]: { status: 403 } } },
    'the organizations': { responses: { [`${API}/user/orgs`]: { status: 500 } } },
  };
  for (const [what, behaviour] of Object.entries(FAULTS)) {
    it(`that keeps ${what} to itself makes nobody somebody with less: try again`, async () => {
      github.setBehaviour(behaviour);
      expect(await refusal({ organizations: true })).to.include({
        status: 503,
        about: 'sign_in_unavailable',
      });
    });
  }

  const ODD: Record<string, GithubBehaviour> = {
    'a person without a number': { user: { id: undefined } },
    'a number that is text': { user: { id: '1' } },
    'addresses that are none': { responses: { [`${API}/user/emails`]: { body: { email: 'x' } } } },
    'an organization without a number': {
      responses: { [`${API}/user/orgs`]: { body: [{ login: 'acme' }] } },
    },
    'no token': { responses: { '/login/oauth/access_token': { body: {} } } },
  };
  for (const [what, behaviour] of Object.entries(ODD)) {
    it(`is not believed with ${what}`, async () => {
      github.setBehaviour(behaviour);
      expect(await refusal({ organizations: true })).to.include({
        status: 400,
        about: 'sign_in_not_trusted',
      });
    });
  }

  it('IDP-03 is asked nothing when the answer has another state, or names another issuer', async () => {
    const exchanged = github.exchanges.length;
    for (const change of [
      ({ searchParams }: URL) => searchParams.set('state', 'another'),
      ({ searchParams }: URL) => searchParams.delete('state'),
      ({ searchParams }: URL) => searchParams.set('iss', 'https://evil.example'),
    ])
      expect(await refusal({}, change)).to.include({ status: 400, code: 'access_denied' });
    expect(github.exchanges).to.have.length(exchanged);
  });

  it('says of a code that it does not know, and of a person who cancels, that the sign-in was not completed', async () => {
    for (const change of [
      ({ searchParams }: URL) => searchParams.set('code', 'made-up'),
      ({ searchParams }: URL) => {
        searchParams.delete('code');
        searchParams.set('error', 'access_denied');
      },
    ])
      expect(await refusal({}, change)).to.include({ status: 400, about: 'sign_in_stopped' });
  });
});
