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
