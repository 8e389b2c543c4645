import { expect } from 'chai';
import { apiOf } from '../../src/sign-in/github.ts';
import { createLoginState, openIdentityProvider } from '../../src/sign-in/provider.ts';
import { identityProviderSchema as settingsSchema } from '../../src/settings/identity-provider-schema.ts';
import {
  type Github,
  GITHUB_CLIENT,
  type GithubBehaviour,
  startGithub,
} from '../support/github.ts';
import { type Change, identify as identifyAt, refusalOf } from './identify.ts';

const CALLBACK = 'http://localhost:4000/interaction/callback/github';
const API = '/api/v3';

describe('sign-in at GitHub', () => {
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

  const identify = (more: object = {}, change?: Change) =>
    identifyAt(open(more), github.approve, change);
  const refusal = (more: object = {}, change?: Change) => refusalOf(identify(more, change));

  it('the authorization request has PKCE S256, state and the scope for email addresses, and asks for organizations only if they are configured', async () => {
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

  it('IDP-16 the API has a host of its own only at github.com and below ghe.com', () => {
    const hosts = [
      'github.com',
      'team.ghe.com',
      'evilghe.com',
      'ghe.com.evil.example',
      'git.example',
    ];
    expect(hosts.map((host) => apiOf(`https://${host}`))).to.deep.equal([
      'https://api.github.com',
      'https://api.team.ghe.com',
      'https://evilghe.com/api/v3',
      'https://ghe.com.evil.example/api/v3',
      'https://git.example/api/v3',
    ]);
  });

  it('the default issuer is github.com', async () => {
    const url = await open({ issuer: undefined }).authorizationUrl(createLoginState('flow'));
    expect(url.origin).to.equal('https://github.com');
  });

  it('GitHub shows its account list for reauthentication or another account, and receives the login hint', async () => {
    const checks = createLoginState('flow-0123456789abcdef');
    for (const prompt of ['login', 'switch'] as const)
      expect(
        (await open().authorizationUrl(checks, { prompt })).searchParams.get('prompt'),
      ).to.equal('select_account');
    const { searchParams } = await open().authorizationUrl(checks, { loginHint: 'octocat' });
    expect(searchParams.get('login')).to.equal('octocat');
  });

  it('IDP-04 the subject is the numeric user id, and the email address is the primary one', async () => {
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
    'without a name gets the login as name': [{ user: { name: null } }, {}, { name: 'octocat' }],
    'without a verified address gets an unverified address': [
      { emails: unverified },
      {},
      { email: 'boss@example.com', emailVerified: false },
    ],
    'without any address has no email address': [{ emails: [] }, {}, { emailVerified: false }],
    'with several addresses gets the primary address': [
      { emails: several },
      {},
      { email: 'ada@example.org' },
    ],
    'with a verified address at one of emailDomains gets that address': [
      { emails: several },
      { emailDomains: ['example.com'] },
      { email: 'Ada@Example.com', emailVerified: true },
    ],
    'with an unverified address at one of emailDomains gets the primary address': [
      { emails: [...unverified.map((one) => ({ ...one, primary: false })), several[0]!] },
      { emailDomains: ['example.com'] },
      { email: 'ada@example.org', emailVerified: true },
    ],
  };
  for (const [who, [behaviour, settings, identity]] of Object.entries(PEOPLE)) {
    it(`a user ${who}`, async () => {
      github.setBehaviour(behaviour);
      expect(await identify(settings)).to.deep.include(identity);
    });
  }

  it('an email address that is too long is ignored and not truncated', async () => {
    const email = `${'a'.repeat(308)}@example.com.evil.example`;
    github.setBehaviour({ emails: [{ email, primary: true, verified: true }] });
    const { email: found, emailVerified } = await identify();
    expect([found, emailVerified]).to.deep.equal([undefined, false]);
  });

  it('IDP-14 the email address of the profile is ignored, because anybody can set it', async () => {
    github.setBehaviour({ user: { email: 'boss@example.com' }, emails: [] });
    expect(await identify()).to.not.have.property('email');
  });

  it('all pages of organizations become groups if they are configured', async () => {
    const organizations = Array.from({ length: 130 }, (_, n) => `organization-${n}`);
    github.setBehaviour({ organizations });
    const identity = await identify({ organizations: true });
    expect(identity.groups).to.deep.equal(organizations);
    expect(identity.organizations).to.deep.equal(
      organizations.map((login, n) => ({ login, id: n + 1 })),
    );
  });

  const FAULTS: Record<string, GithubBehaviour> = {
    'the token endpoint': { responses: { '/login/oauth/access_token': { status: 503 } } },
    'the user API': { responses: { [`${API}/user`]: { status: 502 } } },
    'the email API': { responses: { [`${API}/user/emails`]: { status: 403 } } },
    'the organization API': { responses: { [`${API}/user/orgs`]: { status: 500 } } },
  };
  for (const [what, behaviour] of Object.entries(FAULTS)) {
    it(`an error of ${what} is a 503, and nobody signs in with fewer claims`, async () => {
      github.setBehaviour(behaviour);
      expect(await refusal({ organizations: true })).to.include({
        status: 503,
        about: 'sign_in_unavailable',
      });
    });
  }

  const ODD: Record<string, GithubBehaviour> = {
    'a user without an id': { user: { id: undefined } },
    'a user id that is text': { user: { id: '1' } },
    'malformed email addresses': {
      responses: { [`${API}/user/emails`]: { body: { email: 'x' } } },
    },
    'an organization without an id': {
      responses: { [`${API}/user/orgs`]: { body: [{ login: 'acme' }] } },
    },
    'no token': { responses: { '/login/oauth/access_token': { body: {} } } },
  };
  for (const [what, behaviour] of Object.entries(ODD)) {
    it(`a response with ${what} is refused`, async () => {
      github.setBehaviour(behaviour);
      expect(await refusal({ organizations: true })).to.include({
        status: 400,
        about: 'sign_in_not_trusted',
      });
    });
  }

  it('IDP-03 a response with a wrong state or issuer is refused before any token request', async () => {
    const exchanged = github.exchanges.length;
    for (const change of [
      (query: URLSearchParams) => query.set('state', 'another'),
      (query: URLSearchParams) => query.delete('state'),
      (query: URLSearchParams) => query.set('iss', 'https://evil.example'),
    ])
      expect(await refusal({}, change)).to.include({ status: 400, code: 'access_denied' });
    expect(github.exchanges).to.have.length(exchanged);
  });

  it('an unknown code and a cancelled sign-in are reported as not completed', async () => {
    for (const change of [
      (query: URLSearchParams) => query.set('code', 'made-up'),
      (query: URLSearchParams) => {
        query.delete('code');
        query.set('error', 'access_denied');
      },
    ])
      expect(await refusal({}, change)).to.include({ status: 400, about: 'sign_in_stopped' });
  });
});
