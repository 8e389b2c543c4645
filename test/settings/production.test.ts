import { expect } from 'chai';
import {
  DEVELOPMENT,
  load,
  loadInProduction,
  issuesIn,
  PRODUCTION,
  refusal,
  SECRET,
  wrongSettings,
} from './settings-file.ts';

/** Without the reason, which is the same in every message. */
function refusedInProduction(content: object, environment: Record<string, string> = {}): string[] {
  return refusal(() => loadInProduction(content, environment)).issues.map(({ setting }) => setting);
}

describe('production', () => {
  const REASONS: Record<
    string,
    [change: object, environment: Record<string, string>, reason: string]
  > = {
    'NODE_ENV says so': [{}, { NODE_ENV: 'production' }, 'NODE_ENV is production'],
    'the authorization server has a public address': [
      { authUrl: 'https://auth.example.com' },
      {},
      'authUrl is reachable from other computers',
    ],
    'the resource server has a public address': [
      {},
      { GATEHOUSE_RESOURCE_URL: 'https://192.168.1.2' },
      'GATEHOUSE_RESOURCE_URL is reachable from other computers',
    ],
    'a listener is not on loopback': [
      { listen: { management: '0.0.0.0:4002' } },
      {},
      'listen.management is reachable from other computers',
    ],
    'the development identity provider listens beyond loopback': [
      {},
      { GATEHOUSE_DEVELOPMENT_IDP_LISTEN: '[::]:4003' },
      'GATEHOUSE_DEVELOPMENT_IDP_LISTEN is reachable from other computers',
    ],
    'the development identity provider has a public address': [
      {},
      {
        GATEHOUSE_DEVELOPMENT_IDP_URL: 'https://idp.example.com',
        GATEHOUSE_DEVELOPMENT_IDP_LISTEN: '127.0.0.1:4003',
      },
      'GATEHOUSE_DEVELOPMENT_IDP_URL is reachable from other computers',
    ],
    'a host name only resembles loopback': [
      {},
      { GATEHOUSE_AUTH_URL: 'http://localhost.example.com:4000' },
      'GATEHOUSE_AUTH_URL is reachable from other computers',
    ],
  };
  for (const [name, [change, environment, reason]] of Object.entries(REASONS)) {
    it(`production applies when ${name}, and the issue says so`, () => {
      const issues = issuesIn({ ...DEVELOPMENT, ...change }, environment);
      const developmentIdp = issues.find(({ expected }) => expected.startsWith('no value'));
      expect(developmentIdp?.expected).to.equal(
        `no value; use identityProvider instead, because this is production (${reason})`,
      );
    });
  }

  it('production does not apply to loopback addresses', () => {
    for (const host of ['localhost', '127.0.0.1', '127.0.0.2', '[::1]']) {
      const settings = load(DEVELOPMENT, {
        NODE_ENV: 'test',
        GATEHOUSE_AUTH_URL: `http://${host}:4000`,
        GATEHOUSE_RESOURCE_LISTEN: `${host}:4001`,
      });
      expect(settings.production, host).to.equal(false);
    }
  });

  it('the loaded settings say whether this is production', () => {
    expect(loadInProduction(PRODUCTION)).to.include({
      production: true,
      environmentName: 'production',
      secret: SECRET,
    });
  });

  it('SUP-03 production refuses the development identity provider', () => {
    const { developmentIdp } = DEVELOPMENT;
    const { identityProvider: _, ...embedded } = { ...PRODUCTION, developmentIdp };
    expect(refusedInProduction(embedded)).to.deep.equal(['developmentIdp']);
  });

  it('production requires an identity provider', () => {
    const { identityProvider: _, ...file } = PRODUCTION;
    expect(refusedInProduction(file)).to.deep.equal(['identityProvider']);
  });

  it('SUP-03 production does not generate a root secret', () => {
    expect(wrongSettings(PRODUCTION)).to.deep.equal(['GATEHOUSE_SECRET']);
  });

  it('SUP-03 production refuses plain http for every public address and for the identity provider', () => {
    const identityProvider = { issuer: 'http://login.example.com', clientId: 'gatehouse' };
    const environment = {
      GATEHOUSE_AUTH_URL: 'http://auth.example.com',
      GATEHOUSE_RESOURCE_URL: 'http://localhost:4001',
      GATEHOUSE_MANAGEMENT_URL: 'http://manage.example.com',
    };
    expect(refusedInProduction({ ...PRODUCTION, identityProvider }, environment)).to.deep.equal([
      'GATEHOUSE_AUTH_URL',
      'GATEHOUSE_RESOURCE_URL',
      'GATEHOUSE_MANAGEMENT_URL',
      'identityProvider.issuer',
    ]);
  });

  it('the default drain time is five seconds in production, and none in development', () => {
    expect(loadInProduction(PRODUCTION).drain).to.equal(5);
    expect(loadInProduction({ ...PRODUCTION, drain: '20s' }).drain).to.equal(20);
    expect(load(DEVELOPMENT).drain).to.equal(0);
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
