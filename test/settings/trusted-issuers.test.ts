import { expect } from 'chai';
import {
  DEVELOPMENT,
  load,
  loadInProduction,
  PRODUCTION,
  refusal,
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

  const place = 'authorization.trustedIssuers[0]';
  const issues: [string, object, string][] = [
    ['no keys at all', { jwksUri: undefined }, `${place}.jwksUri`],
    ['both jwks and jwksUri', { jwks: { keys: [KEY] } }, `${place}.jwksUri`],
    ['no clients', { clients: [] }, `${place}.clients`],
    ['an unknown client', { clients: ['app', 'other'] }, `${place}.clients[1]`],
    ['a client without a secret', { clients: ['public'] }, `${place}.clients[0]`],
    ['our own address as its issuer', { issuer: DEVELOPMENT.authUrl }, `${place}.issuer`],
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
