// The doctor looks at each of several identity providers, at the callback of each, and at GitHub without documents to look at.
import { expect } from 'chai';
import type { Finding } from '../../src/doctor/finding.ts';
import { type Github, GITHUB_CLIENT, startGithub } from '../support/github.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';

describe('The doctor, with several identity providers', () => {
  let good: GoodDeployment;
  let github: Github;
  before(async () => {
    good = await startGoodDeployment();
    github = await startGithub();
  });
  after(async () => {
    await good.stop();
    await github.stop();
  });

  /** What is said of the providers; `secret` is that of GitHub. */
  async function look(secret = GITHUB_CLIENT.clientSecret): Promise<Finding[]> {
    const [single] = good.settings.identityProviders;
    if (!single) throw new Error('the deployment has no identity provider');
    const identityProviders = [
      { ...single, id: 'example', name: 'Example Corp' },
      {
        ...single,
        id: 'github',
        kind: 'github' as const,
        name: 'GitHub',
        issuer: github.issuer,
        clientId: GITHUB_CLIENT.clientId,
        clientSecret: secret,
      },
    ];
    const findings = await good.look({ settings: { ...good.settings, identityProviders } });
    return findings.filter(({ check }) =>
      /^(callback|client-secret|identity-provider)/.test(check),
    );
  }

  const complaints = (findings: Finding[]) =>
    findings.filter(({ outcome }) => outcome === 'problem').map(({ check }) => check);
  const callbackOf = (id: string) => `${good.settings.authUrl}/interaction/callback/${id}`;

  it('finds a callback that only the single one had', async () => {
    const findings = await look();
    expect(complaints(findings)).to.deep.equal(['callback']);
    expect(JSON.stringify(findings)).to.include(`register ${callbackOf('example')} there`);
  });

  it('is content with callbacks and secrets of each, and finds the wrong one', async () => {
    good.provider.behave({ callback: callbackOf('example') });
    const findings = await look();
    expect(complaints(findings)).to.deep.equal([]);
    const text = JSON.stringify(findings);
    expect(text).to.include(callbackOf('github')).and.include(callbackOf('example'));
    const wrong = await look('another-secret');
    expect(complaints(wrong)).to.deep.equal(['client-secret']);
    expect(JSON.stringify(wrong)).to.not.include('another-secret');
  });
});
