import { expect } from 'chai';
import {
  DEVELOPMENT,
  load,
  loadInProduction,
  issuesIn,
  PRODUCTION,
  refusal,
  wrongSettings,
} from './settings-file.ts';

describe('a listener', () => {
  it('a listener has the port of the public address, on loopback', () => {
    expect(load(DEVELOPMENT).listen).to.deep.equal({
      auth: { host: '127.0.0.1', port: 4000 },
      resource: { host: '127.0.0.1', port: 4001 },
      management: { host: '127.0.0.1', port: 4002 },
      developmentIdp: { host: '127.0.0.1', port: 4003 },
      metrics: undefined,
    });
  });

  it('a listener uses the loopback address of the public address', () => {
    const environment = {
      GATEHOUSE_AUTH_URL: 'http://[::1]:4000',
      GATEHOUSE_RESOURCE_URL: 'http://127.0.0.2',
    };
    const { auth, resource } = load(DEVELOPMENT, environment).listen;
    expect(auth).to.deep.equal({ host: '::1', port: 4000 });
    expect(resource).to.deep.equal({ host: '127.0.0.2', port: 80 });
  });

  it('a listener for a public host uses every interface and the port of its scheme', () => {
    const { listen } = loadInProduction({
      ...PRODUCTION,
      listen: { resource: '127.0.0.1:4001' },
      managementUrl: 'https://manage.example.com:8443',
    });
    expect(listen).to.deep.equal({
      auth: { host: '0.0.0.0', port: 443 },
      resource: { host: '127.0.0.1', port: 4001 },
      management: { host: '0.0.0.0', port: 8443 },
      developmentIdp: undefined,
      metrics: undefined,
    });
  });

  it('a listener set to localhost uses 127.0.0.1', () => {
    const { auth } = load(DEVELOPMENT, { GATEHOUSE_AUTH_LISTEN: 'localhost:0' }).listen;
    expect(auth).to.deep.equal({ host: '127.0.0.1', port: 0 });
  });
});

describe('the listener for metrics', () => {
  it('the metrics listener exists if it is set', () => {
    const { metrics } = load(DEVELOPMENT, { GATEHOUSE_METRICS_LISTEN: 'localhost:9464' }).listen;
    expect(metrics).to.deep.equal({ host: '127.0.0.1', port: 9464 });
  });

  for (const other of ['auth', 'resource', 'management'])
    it(`the metrics listener cannot share an address with ${other}`, () => {
      const { host, port } = load(DEVELOPMENT).listen[other as 'auth'];
      const environment = { GATEHOUSE_METRICS_LISTEN: `${host}:${port}` };
      const error = refusal(() => load(DEVELOPMENT, environment));
      expect(error.issues.map(({ setting }) => setting)).to.deep.equal([
        'GATEHOUSE_METRICS_LISTEN',
      ]);
    });
});

describe('two hosts', () => {
  it('authorization server and resource server may share an origin', () => {
    const { listen } = load(DEVELOPMENT, { GATEHOUSE_RESOURCE_URL: DEVELOPMENT.authUrl });
    expect(listen.resource).to.deep.equal(listen.auth);
  });

  it('other hosts may not share an origin', () => {
    const environment = {
      GATEHOUSE_MANAGEMENT_URL: DEVELOPMENT.authUrl,
      GATEHOUSE_DEVELOPMENT_IDP_URL: DEVELOPMENT.resourceUrl,
    };
    expect(issuesIn(DEVELOPMENT, environment)).to.deep.equal([
      {
        setting: 'GATEHOUSE_MANAGEMENT_URL',
        given: '"http://localhost:4000"',
        expected: 'an address other than authUrl',
      },
      {
        setting: 'GATEHOUSE_DEVELOPMENT_IDP_URL',
        given: '"http://localhost:4001"',
        expected: 'an address other than resourceUrl',
      },
    ]);
  });

  it('two host names may not share a socket', () => {
    const managementUrl = 'http://127.0.0.1:4000';
    expect(issuesIn({ ...DEVELOPMENT, managementUrl })).to.deep.equal([
      {
        setting: 'managementUrl',
        given: '127.0.0.1:4000 to listen on',
        expected: 'a different host:port (listen.auth is 127.0.0.1:4000); set listen.management',
      },
    ]);
  });

  it('two hosts may not share a port if one listens on every interface', () => {
    const listen = { auth: '0.0.0.0:4000', resource: '127.0.0.1:4000' };
    const error = refusal(() => loadInProduction({ ...PRODUCTION, listen }));
    expect(error.issues.map(({ setting }) => setting)).to.deep.equal(['listen.resource']);
  });

  it('two https hosts with the default port need separate listeners', () => {
    const { listen: _, ...file } = PRODUCTION;
    const error = refusal(() => loadInProduction(file));
    expect(error.issues).to.deep.equal([
      {
        setting: 'resourceUrl',
        given: '0.0.0.0:443 to listen on',
        expected: 'a different host:port (listen.auth is 0.0.0.0:443); set listen.resource',
      },
    ]);
  });

  it('hosts in different processes may have the same listen address', () => {
    const environment = {
      GATEHOUSE_STORE: 'redis://localhost:6379',
      GATEHOUSE_ROLES: 'resource-server',
      GATEHOUSE_AUTH_LISTEN: '127.0.0.1:8080',
      GATEHOUSE_RESOURCE_LISTEN: '127.0.0.1:8080',
    };
    expect(load(DEVELOPMENT, environment).listen.resource.port).to.equal(8080);
  });

  it('two hosts may both have port 0', () => {
    const environment = {
      GATEHOUSE_AUTH_LISTEN: '127.0.0.1:0',
      GATEHOUSE_RESOURCE_LISTEN: '127.0.0.1:0',
    };
    expect(load(DEVELOPMENT, environment).listen.auth.port).to.equal(0);
  });

  it('hosts are compared even if another host is invalid', () => {
    const file = { ...DEVELOPMENT, authUrl: 'nowhere', managementUrl: 'http://127.0.0.1:4001' };
    expect(wrongSettings(file)).to.deep.equal(['authUrl', 'managementUrl']);
  });

  it('hosts are not compared with the default of an invalid host', () => {
    const file = { ...DEVELOPMENT, authUrl: 'http://127.0.0.1:4002', managementUrl: 'nowhere' };
    expect(wrongSettings(file)).to.deep.equal(['managementUrl']);
  });
});
