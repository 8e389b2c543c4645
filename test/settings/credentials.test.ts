import { expect } from 'chai';
import { load, PRODUCTION, refusal } from './settings-file.ts';

const PROVIDER = { ...PRODUCTION.identityProvider, clientSecret: 'the-secret-of-the-client' };
const ENTRA = ['openid', 'profile', 'email', 'api://gatehouse/access'];

function settings(credential: object, provider: object = {}) {
  return {
    ...PRODUCTION,
    store: undefined,
    identityProvider: { ...PROVIDER, ...provider },
    resourceServer: { upstream: { url: 'https://tools.example.com/mcp', credential } },
  };
}

const ENVIRONMENT = { GATEHOUSE_SECRET: 'f2b0b8e4c9d14a0f8b7d1f4e2c6a9573' };

describe('upstreams[].credential', () => {
  it('an exchange is at the only identity provider, whose token of the person is stored then', () => {
    const exchanging = load(settings({ kind: 'exchange', audience: 'tools' }), ENVIRONMENT);
    expect(exchanging.upstreams[0]?.credential).to.deep.equal({
      kind: 'exchange',
      style: 'exchange',
      audience: 'tools',
      params: {},
      header: { name: 'authorization', prefix: 'Bearer ' },
    });
    expect(exchanging.identityProviders.map((each) => each.exchangesTokens)).to.deep.equal([true]);
    const { identityProviders } = load(settings({ kind: 'key' }), ENVIRONMENT);
    expect(identityProviders.map((each) => each.exchangesTokens)).to.deep.equal([undefined]);
  });

  it('recheckScopes need no recheck at a provider where tokens are exchanged', () => {
    const provider = { recheckScopes: ['offline_access'] };
    const { identityProviders } = load(settings({ kind: 'exchange' }, provider), ENVIRONMENT);
    expect(identityProviders[0]?.recheckScopes).to.deep.equal(['offline_access']);
    const { issues } = refusal(() => load(settings({ kind: 'key' }, provider), ENVIRONMENT));
    expect(issues.map(({ setting }) => setting)).to.deep.equal(['identityProvider.recheckScopes']);
  });

  it('a process that only ends credentials starts without the secret of the client, and notes it', () => {
    const credential = { kind: 'oauth', clientId: 'ours', clientSecret: { env: 'SERVICE_SECRET' } };
    const found = (roles: string[], environment: object = {}) =>
      load(
        { ...settings(credential), store: PRODUCTION.store, roles },
        { ...ENVIRONMENT, ...environment },
      ).upstreams[0]?.credential;
    expect(found(['management'])).to.deep.include({ lacksSecret: true });
    const present = { SERVICE_SECRET: 'the secret of the client' };
    expect(found(['management'], present)).to.deep.include({
      clientSecret: present.SERVICE_SECRET,
    });
    for (const role of ['authorization-server', 'resource-server'])
      expect(() => found([role])).to.throw();
  });

  it('an exchange on behalf of a person needs a token for our own app', () => {
    const own = { kind: 'exchange', style: 'on-behalf-of', scope: 'api://tools/.default' };
    for (const scope of ['api://gatehouse/access', 'gatehouse/.default', 'https://a.example/use'])
      load(settings(own, { scopes: ['openid', scope] }), ENVIRONMENT);
  });

  for (const [title, [credential, provider, setting, expected]] of Object.entries<
    [credential: object, provider: object, setting: string, expected: RegExp]
  >({
    'an exchange at an unknown provider': [{ provider: 'x' }, {}, 'provider', /the id of an/],
    'an exchange on behalf of a person without a scope of our own app': [
      { style: 'on-behalf-of', scope: 'api://tools/.default' },
      {},
      'style',
      /a scope of our own app/,
    ],
    'an exchange on behalf of a person with scopes of Microsoft Graph only': [
      { style: 'on-behalf-of', scope: 'api://tools/.default' },
      { scopes: ['openid', 'User.Read', 'https://graph.microsoft.com/Mail.Read'] },
      'style',
      /a scope of our own app/,
    ],
    'an exchange on behalf of a person for nothing': [
      { style: 'on-behalf-of' },
      { scopes: ENTRA },
      'scope',
      /the scopes of the server/,
    ],
    'a secret without its client': [{ clientSecret: 's' }, {}, 'clientId', /has this secret/],
    'a token as a further parameter': [
      { params: { subject_token: 'x' } },
      {},
      'params',
      /parameters other than/,
    ],
  }))
    it(`${title} is refused`, () => {
      const [issue] = refusal(() =>
        load(settings({ kind: 'exchange', ...credential }, provider), ENVIRONMENT),
      ).issues;
      expect(issue?.setting).to.equal(`resourceServer.upstream.credential.${setting}`);
      expect(issue?.expected).to.match(expected);
    });

  it('an exchange at GitHub is refused', () => {
    const github = { ...PROVIDER, issuer: undefined, kind: 'github' };
    const given = { ...settings({ kind: 'exchange' }), identityProvider: github };
    expect(JSON.stringify(refusal(() => load(given, ENVIRONMENT)).issues)).to.contain(
      'GitHub exchanges no',
    );
  });
});
