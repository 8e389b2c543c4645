import { expect } from 'chai';
import { createLoginState, openIdentityProvider } from '../../src/sign-in/provider.ts';
import { identityProviderSchema as settingsSchema } from '../../src/settings/identity-provider-schema.ts';
import { type OpenIdProvider, startOpenIdProvider } from '../support/openid-provider.ts';
import { type Change, identify as identifyAt, refusalOf } from './identify.ts';

const CALLBACK = 'http://localhost:4000/interaction/callback';

describe('sign-in with OpenID Connect', () => {
  let provider: OpenIdProvider;
  beforeEach(async () => {
    provider = await startOpenIdProvider();
  });
  afterEach(() => provider.stop());

  function open(more: object = {}) {
    const settings = { issuer: provider.issuer, clientId: 'gatehouse', ...more };
    return openIdentityProvider(
      { ...settingsSchema.parse(settings), embedded: false, clientSecret: 'secret' },
      CALLBACK,
    );
  }

  const identify = (more: object = {}, change?: Change) =>
    identifyAt(open(more), provider.approve, change);
  const refusal = (more: object = {}, change?: Change) => refusalOf(identify(more, change));

  it('the authentication request has PKCE S256, state and nonce, and a prompt only for reauthentication or another account', async () => {
    const checks = createLoginState('flow-0123456789abcdef');
    const { searchParams } = await open().authorizationUrl(checks);
    expect(Object.fromEntries(searchParams)).to.include({
      redirect_uri: CALLBACK,
      scope: 'openid profile email',
      state: checks.state,
      nonce: checks.nonce,
      code_challenge_method: 'S256',
    });
    expect(searchParams.has('prompt')).to.equal(false);
    expect(checks.state).to.match(/^flow-0123456789abcdef\.[\w-]{32,}$/);
    const google = open({ switchAccountPrompt: 'select_account' });
    expect(
      (await google.authorizationUrl(checks, { prompt: 'switch' })).searchParams.get('prompt'),
    ).to.equal('select_account');
    expect(
      (await google.authorizationUrl(checks, { prompt: 'login' })).searchParams.get('prompt'),
    ).to.equal('login');
  });

  async function requestWith(metadata: object, more: object = {}) {
    provider.setBehaviour({ metadata });
    const checks = createLoginState('flow-0123456789abcdef');
    const url = await open(more).authorizationUrl(checks, { uiLocales: 'fr' });
    return Object.fromEntries(url.searchParams);
  }

  it('a recheck requests offline_access unless the discovery document lists scopes without it, or what recheckScopes says', async () => {
    const recheck = { recheck: '24h' };
    const listed = ['openid', 'profile', 'email'];
    const scopeWith = async (supported: string[] | undefined, more: object) =>
      (await requestWith({ scopes_supported: supported }, more)).scope;
    const withOffline = 'openid profile email offline_access';
    expect(await scopeWith(undefined, recheck)).to.equal(withOffline);
    expect(await scopeWith([...listed, 'offline_access'], recheck)).to.equal(withOffline);
    expect(await scopeWith([...listed, 'offline_access'], {})).to.equal('openid profile email');
    expect(await scopeWith(listed, recheck)).to.equal('openid profile email');
    const asSet = { ...recheck, recheckScopes: ['offline_access', 'email'] };
    expect(await scopeWith(listed, asSet)).to.equal(withOffline);
    const none = { ...recheck, recheckScopes: [] };
    expect(await scopeWith(undefined, none)).to.equal('openid profile email');
  });

  it('ui_locales is sent only to a provider that has languages', async () => {
    expect(await requestWith({ ui_locales_supported: ['fr', 'en'] })).to.include({
      ui_locales: 'fr',
    });
    for (const metadata of [{}, { ui_locales_supported: [] }])
      expect(await requestWith(metadata)).to.not.have.property('ui_locales');
  });

  // https://partenaires.proconnect.gouv.fr/docs/fournisseur-service
  it('without PKCE, a provider that refuses unknown parameters gets only those of OpenID Connect', async () => {
    const more = { pkce: false, clientSecret: 'secret', authorizationParameters: { claims: '{}' } };
    expect(Object.keys(await requestWith({}, more)).toSorted()).to.deep.equal([
      'claims',
      'client_id',
      'nonce',
      'redirect_uri',
      'response_type',
      'scope',
      'state',
    ]);
    provider.setBehaviour({ claims: { name: 'Ada', email: 'ada@example.com' } });
    expect(await identify(more)).to.include({ name: 'Ada' });
    expect(provider.exchanges.at(-1)?.has('code_verifier')).to.equal(false);
    expect(
      await refusal(more, (_query, state) => Object.assign(state, { nonce: 'other' })),
    ).to.include({
      code: 'access_denied',
    });
  });

  it('the client secret is sent as clientAuthentication says, or else as the discovery document lists', async () => {
    const sentWith = async (methods: string[] | undefined, more: object = {}) => {
      provider.setBehaviour({ metadata: { token_endpoint_auth_methods_supported: methods } });
      await open(more).checkClient();
      return provider.exchanges.at(-1)?.has('client_secret') ? 'post' : 'basic';
    };
    const both = ['client_secret_post', 'client_secret_basic'];
    const post = { clientSecret: 'secret', clientAuthentication: 'client_secret_post' };
    expect(await sentWith(undefined)).to.equal('basic');
    expect(await sentWith(both)).to.equal('basic');
    expect(await sentWith(['client_secret_post'])).to.equal('post');
    expect(await sentWith(both, post)).to.equal('post');
  });

  it('name, email address and groups are read from the ID token', async () => {
    provider.setBehaviour({
      claims: { name: 'Ada', email: 'ada@example.com', email_verified: true, roles: ['a', 7, 'b'] },
    });
    const { notices: _, ...identity } = await identify({ groupsClaim: 'roles' });
    expect(identity).to.deep.equal({
      issuer: provider.issuer,
      subject: 'subject-1',
      name: 'Ada',
      email: 'ada@example.com',
      emailVerified: true,
      groups: ['a', 'b'],
      authentication: {},
    });
    expect(provider.requests).to.not.include('/userinfo');
  });

  it('an email address that is too long is ignored and not truncated', async () => {
    const email = `${'a'.repeat(308)}@example.com.evil.example`;
    provider.setBehaviour({ claims: { name: 'Ada', email, email_verified: true } });
    const identity = await identify();
    expect(identity).to.not.have.property('email');
    expect(identity).to.include({ emailVerified: false });
  });
});
