import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { makeCertificate } from '../oauth/metadata-documents/certificate.ts';
import {
  DEVELOPMENT,
  issuesIn,
  load,
  loadInProduction,
  PRODUCTION,
  refusal,
  temporaryDirectory,
  wrongSettings,
} from './settings-file.ts';

const ISSUER = 'https://login.example.com';
const KEY = { kty: 'EC', crv: 'P-256', x: 'x', y: 'y' };
const RIGHT = { issuer: ISSUER, jwksUri: `${ISSUER}/keys`, clients: ['app'] };
const CLIENT = { id: 'app', name: 'App', redirectUris: ['https://app.example.com/cb'] };
const SECRET = 'a-secret-of-a-client-that-is-long-enough';

function withIssuers(...trustedIssuers: object[]) {
  const preRegistered = [
    { ...CLIENT, secret: SECRET },
    { ...CLIENT, id: 'public' },
  ];
  return { ...DEVELOPMENT, clients: { preRegistered }, authorization: { trustedIssuers } };
}

describe('a trusted issuer', () => {
  it('a trusted issuer requires keys and clients, and the rest has defaults', () => {
    expect(load(withIssuers(RIGHT)).authorization.trustedIssuers).to.deep.equal([
      {
        ...RIGHT,
        id: 'login.example.com',
        claims: {
          subject: 'sub',
          name: 'name',
          email: 'email',
          emailVerified: 'email_verified',
          groups: 'groups',
        },
        emailIsVerified: false,
        privateNetwork: false,
        workloads: [],
        audiences: [],
        maxLifetime: 3600,
        singleUse: false,
      },
    ]);
    expect(load(DEVELOPMENT).authorization.trustedIssuers).to.deep.equal([]);
  });

  it('a trusted issuer may have its keys in the settings instead of a URL', () => {
    const { jwksUri: _jwksUri, ...rest } = RIGHT;
    const [issuer] = load(withIssuers({ ...rest, jwks: { keys: [KEY] } })).authorization
      .trustedIssuers;
    expect(issuer?.jwks).to.deep.equal({ keys: [KEY] });
  });

  const WORKLOADS = [
    { id: 'job', match: { subject: 'job' }, connector: 'Jobs', level: 'analytics' },
  ];

  it('the files of a trusted issuer must be readable, and caFile must have certificates', () => {
    const folder = temporaryDirectory();
    const authority = makeCertificate('Cluster');
    writeFileSync(join(folder, 'ca.crt'), authority.cert);
    writeFileSync(join(folder, 'token'), 'token');
    const [ca, token] = [join(folder, 'ca.crt'), join(folder, 'token')];
    const [issuer] = load(withIssuers({ ...RIGHT, caFile: ca, tokenFile: token })).authorization
      .trustedIssuers;
    expect(issuer).to.include({ caFile: ca, tokenFile: token });
    const relative = { ...RIGHT, tokenFile: './no-such-token' };
    expect(issuesIn(withIssuers(relative))).to.deep.include({
      setting: 'authorization.trustedIssuers[0].tokenFile',
      given: '"./no-such-token"',
      expected: 'a readable file (ENOENT)',
    });
    const noCertificate = { ...RIGHT, caFile: token };
    expect(wrongSettings(withIssuers(noCertificate))).to.deep.equal([
      'authorization.trustedIssuers[0].caFile',
    ]);
  });

  const place = 'authorization.trustedIssuers[0]';
  const issues: [string, object, string][] = [
    ['no keys at all', { jwksUri: undefined }, `${place}.jwksUri`],
    ['both jwks and jwksUri', { jwks: { keys: [KEY] } }, `${place}.jwksUri`],
    ['no clients', { clients: [] }, `${place}.clients`],
    ['an unknown client', { clients: ['app', 'other'] }, `${place}.clients[1]`],
    ['a client without a secret', { clients: ['public'] }, `${place}.clients[0]`],
    ['our own address as its issuer', { issuer: DEVELOPMENT.authUrl }, `${place}.issuer`],
    [
      'a network of its own and keys that are not fetched',
      { jwksUri: undefined, jwks: { keys: [KEY] }, privateNetwork: true },
      `${place}.privateNetwork`,
    ],
    [
      'workloads and an address that is not public',
      { jwksUri: 'https://10.0.0.1/keys', workloads: WORKLOADS },
      `${place}.jwksUri`,
    ],
    [
      'workloads and an issuer that is not public',
      { issuer: 'https://[fd00::1]', jwksUri: undefined, clients: [], workloads: WORKLOADS },
      `${place}.issuer`,
    ],
    [
      'a token that would be sent without TLS',
      { jwksUri: 'http://cluster.example/keys', tokenFile: import.meta.filename },
      `${place}.jwksUri`,
    ],
    ['an issuer that is not a URL', { issuer: 'login' }, `${place}.issuer`],
  ];
  for (const [what, change, setting] of issues) {
    it(`a trusted issuer with ${what} is an issue`, () => {
      expect(wrongSettings(withIssuers({ ...RIGHT, ...change }))).to.deep.equal([setting]);
    });
  }

  for (const secret of [{ d: 'd' }, { k: 'k' }]) {
    it(`a trusted issuer with a private key (${Object.keys(secret)[0]}) is an issue`, () => {
      const jwks = { keys: [{ ...KEY, ...secret }] };
      const file = withIssuers({ ...RIGHT, jwksUri: undefined, jwks });
      expect(wrongSettings(file)).to.deep.equal([`${place}.jwks.keys[0]`]);
    });
  }

  for (const issuer of [ISSUER, `${ISSUER}/`]) {
    it(`EMA-01 a trusted issuer that is listed twice, the second time as ${issuer}, is an issue`, () => {
      expect(wrongSettings(withIssuers(RIGHT, { ...RIGHT, id: 'other', issuer }))).to.deep.equal([
        'authorization.trustedIssuers',
      ]);
    });
  }

  const rule = (match: object) => ({ ...WORKLOADS[0], match });
  const sharedIssuer = (issuer: string, match: object) =>
    withIssuers({ issuer, workloads: [rule(match)] });
  const SHARED: [what: string, issuer: string, ids: string[]][] = [
    [
      'GitHub Actions',
      'https://token.actions.githubusercontent.com',
      ['repository_owner_id', 'repository_id'],
    ],
    [
      'an enterprise at GitHub Actions',
      'https://token.actions.githubusercontent.com/acme',
      ['repository_owner_id', 'repository_id'],
    ],
    ['gitlab.com', 'https://gitlab.com', ['namespace_id', 'project_id']],
    ['Buildkite', 'https://agent.buildkite.com', ['organization_id', 'pipeline_id']],
    [
      'HCP Terraform',
      'https://app.terraform.io',
      ['terraform_organization_id', 'terraform_project_id'],
    ],
    ['Google', 'https://accounts.google.com', ['sub']],
    ['Vercel', 'https://oidc.vercel.com', ['owner_id', 'project_id']],
    ['a team at Vercel', 'https://oidc.vercel.com/acme', ['owner_id', 'project_id']],
  ];
  for (const [what, issuer, ids] of SHARED)
    it(`WIF-20 rules about ${what}, which others use too, must name an id exactly, and the error says which line to add`, () => {
      for (const match of [
        { claims: { ref: 'main' } },
        { claims: Object.fromEntries(ids.map((id) => [id, 'x:*'])) },
        ...(ids.includes('sub') ? [] : [{ subject: 'repo:acme/app' }]),
      ]) {
        const [issue, ...others] = issuesIn(sharedIssuer(issuer, match));
        expect(others).to.deep.equal([]);
        expect(issue?.setting).to.equal(`${place}.workloads[0].match`);
        expect(issue?.expected).to.include(`add claims: {${ids[0]}: '<id>'}`);
      }
      for (const id of ids) {
        const claims = { [id]: '12345', ref: 'refs/heads/*' };
        expect(load(sharedIssuer(issuer, { claims })).authorization.trustedIssuers).to.have.length(
          1,
        );
      }
    });

  it('WIF-20 hosts with a similar name and own instances are not shared', () => {
    for (const issuer of [
      'https://gitlab.example.com',
      'https://evilgitlab.com',
      'https://github.example.com/_services/token',
      'https://vercel.com.example',
    ])
      expect(
        load(sharedIssuer(issuer, { claims: { ref: 'main' } })).authorization.trustedIssuers,
      ).to.have.length(1);
  });

  const PATTERNS: [pattern: string, isRight: boolean][] = [
    ['repo:acme/app', true],
    ['repo:acme/*', true],
    ['repo:acme@101/*', true],
    ['system:serviceaccount:billing:*', true],
    ['user@*', true],
    ['a:*:b*', true],
    ['acme*', false],
    ['*', false],
    ['*:main', false],
    ['repo:acme-*', false],
    ['repo:acme.*', false],
    ['a*:*', false],
    ['', false],
  ];
  for (const [pattern, isRight] of PATTERNS)
    it(`WIF-20 the pattern “${pattern}” is ${isRight ? 'accepted' : 'an issue, because a longer name could begin with it'}`, () => {
      for (const match of [{ subject: pattern }, { claims: { team: pattern } }]) {
        const file = sharedIssuer('https://ci.example.com', match);
        if (isRight) load(file);
        else expect(wrongSettings(file)).to.have.length(1);
      }
    });

  it('WIF-19 the audience of the ID tokens of people is none of workloads', () => {
    const { identityProvider } = PRODUCTION;
    const { issuer, clientId } = identityProvider;
    const trusted = { id: 'bots', issuer, workloads: WORKLOADS, audiences: ['api://x', clientId] };
    const file = { ...PRODUCTION, authorization: { trustedIssuers: [trusted] } };
    const { issues: found } = refusal(() => loadInProduction(file));
    expect(found.map(({ setting }) => setting)).to.deep.equal([`${place}.audiences[1]`]);
  });

  it('production requires https for a trusted issuer', () => {
    const plain = { ...RIGHT, issuer: 'http://login.example.com', jwksUri: 'http://a.example/k' };
    const { clients, authorization } = withIssuers(plain);
    const file = { ...PRODUCTION, clients, authorization };
    const { issues: found } = refusal(() => loadInProduction(file));
    expect(found.map(({ setting }) => setting)).to.deep.equal([
      `${place}.issuer`,
      `${place}.jwksUri`,
    ]);
  });
});
