import { expect } from 'chai';
import { openDeployment } from '../../src/doctor/deployment.ts';
import { checkIdentityProviders } from '../../src/doctor/identity-providers.ts';
import { type Finding, flatten } from '../../src/doctor/report.ts';
import { recommendedFile, usePlayedProviders } from '../sign-in/played-providers.ts';
import { RECORDED_PROVIDERS } from '../sign-in/providers/index.ts';
import { recommendedSettings } from '../sign-in/table.ts';
import { DEVELOPMENT, load } from '../settings/settings-file.ts';

describe('doctor and the recorded identity providers', () => {
  usePlayedProviders();
  let findings: Finding[];
  before(async () => {
    const settings = load({ ...DEVELOPMENT, ...recommendedFile() });
    const { authUrl, resourceUrl } = settings;
    const signal = AbortSignal.timeout(60_000);
    const deployment = openDeployment({ authUrl, resourceUrl, signal });
    findings = flatten(await checkIdentityProviders({ ...deployment, settings }));
    deployment.close();
  });

  for (const recorded of RECORDED_PROVIDERS)
    it(`doctor finds nothing wrong with the recommended settings of ${recorded.name}`, () => {
      const { issuer } = recommendedSettings(recorded).identityProvider;
      const own = findings.filter(({ about }) => about === issuer);
      const outcomesOf = (name: string) =>
        own.flatMap(({ check, outcome }) => (check === name ? outcome : []));
      expect(own.filter(({ outcome }) => ['problem', 'warning'].includes(outcome))).to.deep.equal(
        [],
      );
      for (const check of ['identity-provider', 'identity-provider-issuer', 'client-secret'])
        expect(outcomesOf(check), check).to.include('ok');
    });
});
