// Signing in at an identity provider (OpenID Connect Core section 3.1): what is believed of its answers, and what a fault of it does.
import { expect } from 'chai';
import {
  createLoginState,
  openIdentityProvider,
  type LoginState,
} from '../../src/identity-providers/provider.ts';
import { HttpError } from '../../src/http/errors.ts';
import { identityProviderSchema as settingsSchema } from '../../src/settings/identity-provider-schema.ts';
import { type OpenIdProvider, startOpenIdProvider } from '../support/openid-provider.ts';

const CALLBACK = 'http://localhost:4000/interaction/callback';

describe('An identity provider', () => {
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

  async function identify(
    more: object = {},
    change: (checks: LoginState, query: URLSearchParams) => void = () => {},
  ) {
    const checks = createLoginState('flow-0123456789abcdef');
    const ours = open(more);
    const { searchParams } = provider.approve(await ours.authorizationUrl(checks));
    change(checks, searchParams);
    return ours.identify(`?${searchParams}`, checks);
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

  it('is asked with PKCE S256, state and nonce, and with a prompt only when one is wanted', async () => {
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

  it('is believed about name, address and groups that its ID token carries', async () => {
    provider.setBehaviour({
      claims: { name: 'Ada', email: 'ada@example.com', email_verified: true, roles: ['a', 7, 'b'] },
    });
    expect(await identify({ groupsClaim: 'roles' })).to.deep.equal({
      issuer: provider.issuer,
      subject: 'subject-1',
      name: 'Ada',
      email: 'ada@example.com',
      emailVerified: true,
      groups: ['a', 'b'],
    });
    expect(provider.requests).to.not.include('/userinfo');
  });

  it('is not believed about an address that is too long, because its beginning is another address', async () => {
    const email = `${'a'.repeat(308)}@example.com.evil.example`;
    provider.setBehaviour({ claims: { name: 'Ada', email, email_verified: true } });
    const identity = await identify();
    expect(identity).to.not.have.property('email');
    expect(identity).to.include({ emailVerified: false });
  });

  it('is asked for the rest when its ID token is thin', async () => {
    provider.setBehaviour({
      userinfo: {
        status: 200,
        body: { sub: 'subject-1', name: 'Ada', email: 'ada@example.com', email_verified: true },
      },
    });
    expect(await identify()).to.include({
      name: 'Ada',
      email: 'ada@example.com',
      emailVerified: true,
    });
  });

  it('vouches for an address only where it says the address', async () => {
    provider.setBehaviour({
      claims: { name: 'Ada', email_verified: true },
      userinfo: { status: 200, body: { sub: 'subject-1', email: 'boss@example.com' } },
    });
    expect(await identify()).to.include({ email: 'boss@example.com', emailVerified: false });
  });

  it('whose userinfo is away makes nobody a person without an address: try again', async () => {
    for (const status of [500, 503, 429]) {
      provider.setBehaviour({ claims: { name: 'Ada' }, userinfo: { status, body: {} } });
      expect(await refusal()).to.include({ status: 503, code: 'temporarily_unavailable' });
    }
  });

  it('whose userinfo is about somebody else is refused', async () => {
    provider.setBehaviour({
      userinfo: { status: 200, body: { sub: 'subject-2', email: 'boss@example.com' } },
    });
    expect((await refusal()).status).to.be.oneOf([400, 503]);
  });

  it('is not believed when the ID token is not for this sign-in, or not from it', async () => {
    const past = Math.floor(Date.now() / 1000) - 600;
    for (const behaviour of [
      { claims: { nonce: 'another' } },
      { claims: { aud: 'another-client' } },
      { claims: { iss: 'https://evil.example' } },
      { claims: { exp: past } },
      { signature: 'none' as const },
      { signature: 'stranger' as const },
    ]) {
      provider.setBehaviour(behaviour);
      expect(await refusal(), JSON.stringify(behaviour)).to.include({
        status: 400,
        code: 'access_denied',
      });
    }
  });

  it('is not believed when the answer has another state, or the answer of another provider', async () => {
    const wrong: ((checks: LoginState, query: URLSearchParams) => void)[] = [
      (_checks, query) => query.set('state', 'another'),
      (_checks, query) => query.delete('state'),
      (_checks, query) => query.set('iss', 'https://evil.example'),
      (_checks, query) => query.delete('code'),
    ];
    for (const change of wrong) {
      expect(await refusal({}, change)).to.include({ status: 400, code: 'access_denied' });
    }
    expect(provider.requests).to.not.include('/token');
  });

  it('that the person cancelled at is said in words, and nothing it says is repeated', async () => {
    const error = await refusal({}, (_checks, query) => {
      query.delete('code');
      query.set('error', 'access_denied');
      query.set('error_description', '<script>alert(1)</script>');
    });
    expect(error).to.include({ status: 400, code: 'access_denied' });
    expect(error.message).to.not.include('script');
  });

  it('that does not know the code is not at fault: anybody can come back with any code', async () => {
    provider.setBehaviour({ tokenStatus: 400, tokens: { error: 'invalid_grant' } });
    expect(await refusal()).to.include({ status: 400, code: 'access_denied' });
    provider.setBehaviour({ tokenStatus: 400, tokens: { error: 'invalid_client' } });
    expect(await refusal()).to.include({ status: 500, code: 'sign_in_not_set_up' });
  });

  it('that fails is a fault to wait out', async () => {
    provider.setBehaviour({ tokenStatus: 503 });
    expect(await refusal()).to.include({ status: 503, code: 'temporarily_unavailable' });
    await provider.stop();
    expect(await refusal()).to.include({ status: 503, code: 'temporarily_unavailable' });
    provider = await startOpenIdProvider();
  });
});
