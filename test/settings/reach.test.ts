// Parts that other computers can reach although an address looks like this computer only.
import { expect } from 'chai';
import { DEVELOPMENT, loadInProduction, issuesIn, PRODUCTION, refusal } from './settings-file.ts';

describe('The development identity provider', () => {
  it('at an address of another computer makes it production, wherever it listens', () => {
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

describe('The management host in production', () => {
  const reachable = { GATEHOUSE_MANAGEMENT_LISTEN: '0.0.0.0:4002' };

  it('has an https address when its listener is open to the network', () => {
    const { issues } = refusal(() => loadInProduction(PRODUCTION, reachable));
    expect(issues.map(({ setting }) => setting)).to.deep.equal(['managementUrl']);
    expect(issues[0]?.expected).to.match(/^an https address/);
  });

  it('may listen to the network behind an https address', () => {
    const environment = { ...reachable, GATEHOUSE_MANAGEMENT_URL: 'https://manage.example.com' };
    expect(loadInProduction(PRODUCTION, environment).listen.management.host).to.equal('0.0.0.0');
  });
});
