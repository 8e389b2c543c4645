import { expect } from 'chai';
import type { Finding } from '../../src/doctor/report.ts';
import { createReport, reportText } from '../../src/doctor/report.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';

describe("doctor's check of the client secret", () => {
  let good: GoodDeployment;
  before(async function start() {
    good = await startGoodDeployment();
  });
  afterEach(() => good.provider.behave());
  after(() => good?.stop());

  async function check({ secret = true } = {}): Promise<Finding | undefined> {
    const identityProviders = good.settings.identityProviders.map(({ clientSecret, ...rest }) =>
      secret && clientSecret !== undefined ? { ...rest, clientSecret } : rest,
    );
    const settings = { ...good.settings, identityProviders };
    const findings = await good.examine({ settings }, ['identity-provider']);
    return findings.find(({ check }) => check === 'client-secret');
  }

  it('SUP-07 a provider that accepts Gatehouse as a public client is no problem', async () => {
    good.provider.misbehave({ tokenAnswer: [400, { error: 'invalid_grant' }] });
    expect(await check({ secret: false })).to.include({
      outcome: 'ok',
      what: 'the identity provider accepts Gatehouse without a client secret (a public client, PKCE)',
    });
  });

  it('SUP-07 a missing secret that only the error description names is a problem', async () => {
    const body = { error: 'invalid_request', error_description: 'client_secret is missing.' };
    good.provider.misbehave({ tokenAnswer: [400, body] });
    const finding = await check({ secret: false });
    expect(finding).to.include({ outcome: 'problem' });
    expect(finding?.what).to.include('invalid_request (client_secret is missing.)');
    expect(finding?.remedy).to.include('no client secret is set');
  });

  it('SUP-07 an ambiguous error is a note that quotes its code, without control characters', async () => {
    const body = { error: 'invalid_request', error_description: 'The code is malformed.\u001b[2J' };
    good.provider.misbehave({ tokenAnswer: [400, body] });
    for (const secret of [true, false]) {
      const finding = await check({ secret });
      expect(finding).to.include({ outcome: 'note' });
      expect(finding?.what).to.include('invalid_request (The code is malformed.');
      expect(reportText(createReport({}, finding ? [finding] : []), true)).to.not.include('\u001b');
    }
  });

  async function examineWith(more: object, answersWith: object): Promise<Finding[]> {
    good.provider.misbehave({ answersWith });
    const identityProviders = good.settings.identityProviders.map((provider) => ({
      ...provider,
      ...more,
    }));
    return good.examine({ settings: { ...good.settings, identityProviders } }, [
      'identity-provider',
    ]);
  }

  it('a recheck without refresh tokens is a warning, and one more often than apps refresh a note', async () => {
    const recheckFindings = async (more: object, answersWith: object) =>
      (await examineWith(more, answersWith)).filter(({ check: name }) => name === 'recheck');
    const offered = {
      scopes_supported: ['openid', 'profile', 'email', 'offline_access'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
    };
    const [ok, ...none] = await recheckFindings({ recheck: 86_400 }, offered);
    expect([ok?.outcome, none]).to.deep.equal(['ok', []]);
    const missing = { ...offered, grant_types_supported: ['authorization_code'] };
    const [warning, note, ...others] = await recheckFindings({ recheck: 60 }, missing);
    expect(others).to.deep.equal([]);
    expect(warning).to.include({ outcome: 'warning' });
    expect(warning?.what).to.include('does not offer the grant type refresh_token');
    expect(note).to.include({ outcome: 'note' });
    expect(note?.what).to.include('shorter than lifetimes.accessToken');
  });

  it('a recheck at a provider that does not list offline_access is a note, and a scope that it refuses is named', async () => {
    const scopes_supported = ['openid', 'profile', 'email'];
    const recheck = 86_400;
    const [note] = (await examineWith({ recheck }, { scopes_supported })).filter(
      ({ check: name }) => name === 'recheck',
    );
    expect(note).to.include({ outcome: 'note' });
    expect(note?.what).to.include('offline_access, so it is not requested');
    const asked = { recheck, recheckScopes: ['offline_access'] };
    const found = await examineWith(asked, { scopes_supported });
    const [warning] = found.filter(({ outcome }) => outcome === 'warning');
    expect(warning?.what).to.include('does not offer the scope offline_access');
    // As GitLab answers.
    good.provider.misbehave({
      page: [400, 'The requested scope is invalid, unknown, or malformed.'],
    });
    const refused = await examineWith({ recheck }, {});
    const [problem] = refused.filter(({ outcome }) => outcome === 'problem');
    expect(problem?.what).to.include('invalid_scope its page says “scope is invalid”');
    expect(problem?.remedy).to.match(/^set scopes, and with recheck recheckScopes/);
  });

  it('an issuer whose host has capitals in the document is no problem, and later checks run; another issuer is one', async () => {
    const [{ issuer = '' } = {}] = good.settings.identityProviders;
    const problemsWith = async (found: string) => {
      const findings = await examineWith({}, { issuer: found });
      return findings.filter(({ outcome }) => outcome === 'problem').map(({ check: name }) => name);
    };
    const capitals = issuer.replace('localhost', 'LOCALHOST');
    expect(capitals).to.not.equal(issuer);
    expect(await problemsWith(capitals)).to.deep.equal([]);
    good.provider.misbehave({ secret: 'another-secret' });
    expect(await problemsWith(capitals)).to.deep.equal(['client-secret']);
    expect(await problemsWith(`${issuer}/other`)).to.deep.equal(['identity-provider-issuer']);
  });

  it('a wrong secret is a problem whose remedy names the authentication method, and settings that the provider does not offer are warnings', async () => {
    const methods = ['client_secret_basic', 'client_secret_post'];
    good.provider.misbehave({ secret: 'another-secret' });
    const offered = { token_endpoint_auth_methods_supported: methods };
    const problem = (await examineWith({}, offered)).find(
      ({ check: name }) => name === 'client-secret',
    );
    expect(problem?.remedy)
      .to.include('The secret was sent with client_secret_basic')
      .and.include('set clientAuthentication to it');
    good.provider.behave();
    const strange = { pkce: false, clientAuthentication: 'client_secret_post' };
    const found = await examineWith(strange, {
      token_endpoint_auth_methods_supported: ['client_secret_basic'],
    });
    const warnings = found.filter(({ outcome }) => outcome === 'warning').map(({ what }) => what);
    expect(warnings).to.deep.equal([
      'pkce is false, but the identity provider offers PKCE with S256',
      'the identity provider does not offer client_secret_post, which clientAuthentication requires',
    ]);
  });
});
