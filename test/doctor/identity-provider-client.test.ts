import { expect } from 'chai';
import type { Finding } from '../../src/doctor/report.ts';
import { createReport, reportText } from '../../src/doctor/report.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';

describe("doctor's check of the client secret", () => {
  let good: GoodDeployment;
  before(async function start() {
    this.timeout(40_000);
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

  it('a recheck without refresh tokens is a warning, and one more often than apps refresh a note', async () => {
    const examineWith = async (recheck: number, extra: object) => {
      good.provider.misbehave({ answersWith: extra });
      const identityProviders = good.settings.identityProviders.map((provider) => ({
        ...provider,
        scopes: [...provider.scopes, 'offline_access'],
        recheck,
      }));
      const settings = { ...good.settings, identityProviders };
      const findings = await good.examine({ settings }, ['identity-provider']);
      return findings.filter(({ check }) => check === 'recheck');
    };
    const offered = {
      scopes_supported: ['openid', 'profile', 'email', 'offline_access'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
    };
    expect((await examineWith(86_400, offered)).map(({ outcome }) => outcome)).to.deep.equal([
      'ok',
    ]);
    const missing = { ...offered, grant_types_supported: ['authorization_code'] };
    const [warning, note, ...others] = await examineWith(60, missing);
    expect(others).to.deep.equal([]);
    expect(warning).to.include({ outcome: 'warning' });
    expect(warning?.what).to.include('does not offer the grant type refresh_token');
    expect(note).to.include({ outcome: 'note' });
    expect(note?.what).to.include('shorter than lifetimes.accessToken');
  });
});
