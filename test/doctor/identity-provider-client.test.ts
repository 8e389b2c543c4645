// What the doctor says of providers whose answer about the client can mean either, and of clients without a secret.
import { expect } from 'chai';
import type { Finding } from '../../src/doctor/finding.ts';
import { reportText, reportOf } from '../../src/doctor/report.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';

describe('The doctor, of the client secret,', () => {
  let good: GoodDeployment;
  before(async function start() {
    this.timeout(40_000);
    good = await startGoodDeployment();
  });
  afterEach(() => good.provider.behave({}));
  after(() => good?.stop());

  async function look({ secret = true } = {}): Promise<Finding | undefined> {
    const identityProviders = good.settings.identityProviders.map(({ clientSecret, ...rest }) =>
      secret && clientSecret !== undefined ? { ...rest, clientSecret } : rest,
    );
    const findings = await good.look({ settings: { ...good.settings, identityProviders } });
    return findings.find(({ check }) => check === 'client-secret');
  }

  it('SUP-07 accepts a provider that takes Gatehouse for a public client', async () => {
    good.provider.behave({ tokenAnswer: [400, { error: 'invalid_grant' }] });
    expect(await look({ secret: false })).to.include({
      outcome: 'ok',
      what: 'the identity provider accepts Gatehouse without a client secret (a public client, PKCE)',
    });
  });

  it('SUP-07 finds a missing secret where the provider says so in the description only', async () => {
    const body = { error: 'invalid_request', error_description: 'client_secret is missing.' };
    good.provider.behave({ tokenAnswer: [400, body] });
    const finding = await look({ secret: false });
    expect(finding).to.include({ outcome: 'problem' });
    expect(finding?.what).to.include('invalid_request (client_secret is missing.)');
    expect(finding?.remedy).to.include('no client secret is set');
  });

  it('SUP-07 repeats an answer that can mean either, with its error code', async () => {
    const body = { error: 'invalid_request', error_description: 'The code is malformed.\u001b[2J' };
    good.provider.behave({ tokenAnswer: [400, body] });
    for (const secret of [true, false]) {
      const finding = await look({ secret });
      expect(finding).to.include({ outcome: 'note' });
      expect(finding?.what).to.include('invalid_request (The code is malformed.');
      expect(reportText(reportOf({}, finding ? [finding] : []), true)).to.not.include('\u001b');
    }
  });
});
