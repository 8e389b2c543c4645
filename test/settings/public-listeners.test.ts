import { expect } from 'chai';
import { DEVELOPMENT, loadInProduction, issuesIn, PRODUCTION, refusal } from './settings-file.ts';

describe('the development identity provider', () => {
  it('a development identity provider at a non-loopback address means production, whatever its listener', () => {
    const issues = issuesIn(DEVELOPMENT, {
      GATEHOUSE_DEVELOPMENT_IDP_URL: 'https://idp.example.com',
      GATEHOUSE_DEVELOPMENT_IDP_LISTEN: '127.0.0.1:4003',
    });
    const own = issues.find(({ setting }) => setting.startsWith('developmentIdp'));
    expect(own?.expected).to.include(
      'production (GATEHOUSE_DEVELOPMENT_IDP_URL is reachable from other computers)',
    );
  });
});

describe('the management host in production', () => {
  const reachable = { GATEHOUSE_MANAGEMENT_LISTEN: '0.0.0.0:4002' };

  it('a listener on every interface requires an https management address', () => {
    const { issues } = refusal(() => loadInProduction(PRODUCTION, reachable));
    expect(issues.map(({ setting }) => setting)).to.deep.equal(['managementUrl']);
    expect(issues[0]?.expected).to.match(/^an https address/);
  });

  it('an https management address may listen on every interface', () => {
    const environment = { ...reachable, GATEHOUSE_MANAGEMENT_URL: 'https://manage.example.com' };
    expect(loadInProduction(PRODUCTION, environment).listen.management.host).to.equal('0.0.0.0');
  });
});
