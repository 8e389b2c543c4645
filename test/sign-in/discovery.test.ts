// What a changed discovery document changes, and which issuers a document may have.
import { expect } from 'chai';
import * as openid from 'openid-client';
import {
  createLoginState,
  openIdentityProvider,
  providerName,
} from '../../src/sign-in/provider.ts';
import { identityProviderSchema } from '../../src/settings/identity-provider-schema.ts';
import { isIssuerOfDocument } from '../../src/settings/value-types.ts';
import { advanceClock, freezeClock, restoreClock } from '../support/clock.ts';
import { directHosts } from '../support/known-hosts.ts';
import {
  OPENID_CLIENT,
  type OpenIdProvider,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { identify as identifyAt, refusalOf } from './identify.ts';

const DISCOVERY = '/.well-known/openid-configuration';
const ADA = { name: 'Ada', email: 'ada@example.com', email_verified: true, groups: [] };
const MAX_AGE_SECONDS = 600;

function open(issuer: string, more: object = {}) {
  const settings = identityProviderSchema.parse({ issuer, ...OPENID_CLIENT, ...more });
  const callback = 'http://localhost:4000/interaction/callback';
  return openIdentityProvider({ ...settings, embedded: false }, callback);
}

describe('The discovery document of a provider', () => {
  let provider: OpenIdProvider;
  let client: ReturnType<typeof open>;
  beforeEach(async () => {
    provider = await startOpenIdProvider();
    client = open(provider.issuer);
    freezeClock();
    provider.setBehaviour({ claims: ADA });
    await identify();
  });
  afterEach(async () => {
    restoreClock();
    await provider.stop();
  });

  const identify = () => identifyAt(client, provider.approve);
  const reads = () => provider.requests.filter((path) => path === DISCOVERY).length;
  /** As an endpoint that is not there any more. */
  const gone: NonNullable<Parameters<OpenIdProvider['setBehaviour']>[0]['responses']> = {
    '/token': (_req, res) =>
      res.writeHead(404, { 'content-type': 'application/json' }).end('{"error":"not_found"}'),
  };
  /** The token endpoint of the document, at an address that the provider has beside it. */
  const moved = () => ({ token_endpoint: `${provider.issuer}/moved/token` });

  it('is read again when the token endpoint has moved, and the sign-in goes on', async () => {
    provider.setBehaviour({
      claims: ADA,
      metadata: moved(),
      responses: gone,
      tokenPath: '/moved/token',
    });
    advanceClock(60);
    expect(await identify()).to.include({ name: 'Ada' });
    expect(reads()).to.equal(2);
  });

  it('is read again after ten minutes, and the last one counts while that fails', async () => {
    const authorizationUrl = async () =>
      (await client.authorizationUrl(createLoginState('flow-0123456789abcdef'))).pathname;
    const metadata = { authorization_endpoint: `${provider.issuer}/moved/authorize` };
    const fails = { [DISCOVERY]: (_req: unknown, res: { destroy: () => void }) => res.destroy() };
    provider.setBehaviour({ metadata, responses: fails });
    advanceClock(MAX_AGE_SECONDS - 1);
    expect([await authorizationUrl(), reads()]).to.deep.equal(['/authorize', 1]);
    advanceClock(1);
    expect([await authorizationUrl(), reads()]).to.deep.equal(['/authorize', 2]);
    provider.setBehaviour({ metadata });
    advanceClock(2);
    expect([await authorizationUrl(), reads()]).to.deep.equal(['/moved/authorize', 3]);
  });

  it('is read at most once in two seconds, however many sign-ins fail', async () => {
    provider.setBehaviour({ responses: gone });
    advanceClock(60);
    for (let n = 0; n < 5; n += 1)
      expect(await refusalOf(identify())).to.include({ code: 'sign_in_not_set_up' });
    expect(reads()).to.equal(2);
    advanceClock(2);
    await refusalOf(identify());
    expect(reads()).to.equal(3);
  });

  it('is not read again for an error that it cannot explain', async () => {
    advanceClock(60);
    for (const error of ['invalid_client', 'invalid_grant']) {
      provider.setBehaviour({ tokenStatus: 400, tokens: { error } });
      await refusalOf(identify());
    }
    expect(reads()).to.equal(1);
  });

  // https://github.com/kellnr/kellnr/issues/1265
  it('is read again, with the keys, when an ID token has another key, so that one sign-in fails at most', async () => {
    const ofStranger = { claims: ADA, signature: 'stranger' } as const;
    const keys = JSON.stringify({ keys: [{ ...provider.strangerJwk, kid: 'one' }] });
    const responses: typeof gone = {
      '/jwks': (_req, res) => res.writeHead(200, { 'content-type': 'application/json' }).end(keys),
    };
    advanceClock(10);
    provider.setBehaviour({ ...ofStranger, responses });
    expect(await refusalOf(identify())).to.include({ code: 'access_denied' });
    expect(await identify()).to.include({ name: 'Ada' });
    expect(reads()).to.equal(2);
  });

  it('is read again when the keys for logout tokens have moved', async () => {
    const token = async () => provider.logoutToken({ sub: 'subject-1' });
    const now = () => Date.now() / 1000;
    const metadata = { jwks_uri: `${provider.issuer}/moved/jwks` };
    const responses = {
      '/jwks': (_req: unknown, res: { writeHead: (status: number) => { end: () => void } }) =>
        res.writeHead(404).end(),
    };
    provider.setBehaviour({ metadata, responses, keysPath: '/moved/jwks' });
    advanceClock(60);
    const first = await refusalOf(
      Promise.resolve(client.verifyLogoutToken?.(await token(), now())),
    );
    expect(first).to.include({ status: 503 });
    expect(await client.verifyLogoutToken?.(await token(), now())).to.include({
      subject: 'subject-1',
    });
  });

  it('may have an issuer whose host has capitals, as that of AD FS', async () => {
    const adfs = await startOpenIdProvider({
      metadata: (origin) => ({
        issuer: origin.replace('127.0.0.1', 'LOCALHOST'),
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        jwks_uri: `${origin}/jwks`,
      }),
    });
    try {
      adfs.setBehaviour({ claims: ADA });
      client = open(adfs.issuer.replace('LOCALHOST', 'localhost'));
      const { issuer } = adfs;
      expect(issuer).to.include('LOCALHOST');
      expect(await identifyAt(client, adfs.approve)).to.include({ issuer, name: 'Ada' });
      expect(await client.checkClient()).to.include({ result: 'accepted' });
    } finally {
      await adfs.stop();
    }
  });
});

const TENANT = '11111111-2222-3333-4444-555555555555';
const MICROSOFT = 'https://login.microsoftonline.com';

describe('The shared endpoints of Microsoft Entra ID', () => {
  let provider: OpenIdProvider;
  let endDirecting = async () => {};
  before(async () => {
    provider = await startOpenIdProvider({
      metadata: () => ({
        issuer: `${MICROSOFT}/{tenantid}/v2.0`,
        authorization_endpoint: `${MICROSOFT}/common/oauth2/v2.0/authorize`,
        token_endpoint: `${MICROSOFT}/token`,
        jwks_uri: `${MICROSOFT}/common/discovery/v2.0/keys`,
        id_token_signing_alg_values_supported: ['RS256'],
      }),
      discoveryPath: '/common/v2.0',
    });
    endDirecting = directHosts(new Map([['login.microsoftonline.com', provider.port]]));
  });
  after(async () => {
    await endDirecting();
    await provider.stop();
  });

  it('accept the issuer of the tenant in the ID token only, and in a recheck only that of the person', async () => {
    const client = open(`${MICROSOFT}/common/v2.0`, { recheck: '24h' });
    const iss = `${MICROSOFT}/${TENANT}/v2.0`;
    const other = `${MICROSOFT}/22222222-2222-3333-4444-555555555555/v2.0`;
    const signInWith = (claims: object) => {
      provider.setBehaviour({ claims: { ...ADA, ...claims } });
      return identifyAt(client, provider.approve);
    };
    expect(await signInWith({ iss, tid: TENANT })).to.include({
      issuer: iss,
      providerIssuer: `${MICROSOFT}/common/v2.0`,
    });
    expect(await refusalOf(signInWith({ iss: other, tid: TENANT }))).to.include({
      code: 'access_denied',
    });
    const recheck = (issuer: string) => {
      provider.setBehaviour({ claims: { ...ADA, iss: issuer, tid: TENANT } });
      const token = Buffer.from('{"sub":"subject-1"}').toString('base64url');
      const person = { issuer: iss, subject: 'subject-1', ...ADA, emailVerified: true };
      return client.recheck({ token, person, keep: async () => {} });
    };
    expect(await recheck(iss)).to.have.nested.property('identity.name', 'Ada');
    expect(await recheck(other).catch(() => 'rejected')).to.equal('rejected');
  });

  it('have on pages the name that the settings give them, for people of every tenant', async () => {
    const client = { ...open(`${MICROSOFT}/common/v2.0`), name: 'Contoso' };
    provider.setBehaviour({ claims: { ...ADA, iss: `${MICROSOFT}/${TENANT}/v2.0`, tid: TENANT } });
    const person = await identifyAt(client, provider.approve);
    expect(providerName([client], person)).to.equal('Contoso');
  });
});

describe('The issuer of a discovery document', () => {
  const PAIRS: [expected: string, found: string, isAccepted: boolean][] = [
    ['https://login.example.com', 'https://login.example.com', true],
    ['https://login.example.com', 'https://login.example.com/', true],
    ['https://login.example.com/adfs', 'https://LOGIN.Example.com/adfs', true],
    ['https://login.example.com/adfs', 'https://login.example.com/adfs/', false],
    ['https://login.example.com/adfs', 'https://login.example.com/ADFS', false],
    ['https://login.example.com', 'http://login.example.com', false],
    ['https://login.example.com', 'https://other.example.com', false],
    ['https://login.example.com', 'not an address', false],
    [`${MICROSOFT}/common/v2.0`, `${MICROSOFT}/{tenantid}/v2.0`, true],
    [`${MICROSOFT}/${TENANT}`, `https://sts.windows.net/${TENANT}/`, true],
    [`${MICROSOFT}/example.com/v2.0`, `${MICROSOFT}/${TENANT}/v2.0`, true],
    ['https://login.microsoftonline.us/common/v2.0', `${MICROSOFT}/{tenantid}/v2.0`, false],
    [
      'https://example.b2clogin.com/example/policy/v2.0',
      `https://example.b2clogin.com/${TENANT}/v2.0/`,
      true,
    ],
  ];
  for (const [expected, found, isAccepted] of PAIRS)
    it(`${found} is ${isAccepted ? 'accepted' : 'refused'} for ${expected}, in the checks as at a sign-in`, async () => {
      const answer = async () => Response.json({ issuer: found });
      const atSignIn = await openid
        .discovery(new URL(expected), 'client', undefined, openid.None(), {
          [openid.customFetch]: answer,
        })
        .then(
          () => true,
          () => false,
        );
      expect([isIssuerOfDocument(expected, found), atSignIn]).to.deep.equal([
        isAccepted,
        isAccepted,
      ]);
    });
});
