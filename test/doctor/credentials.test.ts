import { expect } from 'chai';
import type { CredentialSettings } from '../../src/settings/credentials.ts';
import type { Upstream } from '../../src/settings/upstreams.ts';
import {
  type ProtectedServer,
  startProtectedServer,
} from '../support/credentials/protected-server.ts';
import { upstreamAt } from './fault.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';

type OAuth = Extract<CredentialSettings, { kind: 'oauth' }>;

describe("doctor's check of own accounts at the MCP server", () => {
  let good: GoodDeployment;
  let service: ProtectedServer;
  before(async function start() {
    good = await startGoodDeployment();
    service = await startProtectedServer();
  });
  afterEach(() => {
    service.metadata = {};
    service.resourceMetadata = {};
    service.registrationStatus = 201;
    service.tokenAnswers.length = 0;
  });
  after(async () => {
    await service?.close();
    await good?.stop();
  });

  const oauth = (more: Partial<OAuth>): OAuth => ({
    kind: 'oauth',
    scopes: [],
    authorizeParams: {},
    header: { name: 'authorization', prefix: 'Bearer ' },
    ...more,
  });

  async function check(more: Partial<OAuth> = {}) {
    const upstream = { ...upstreamAt(service.url), credential: oauth(more) };
    const settings = { ...good.settings, upstreams: [upstream] };
    return good.examine({ settings }, ['credential']);
  }

  it('a service that can be used passes, and the redirect URI is named', async () => {
    const findings = await check();
    expect(findings.map(({ outcome }) => outcome)).to.deep.equal(['ok']);
    expect(findings[0]?.what).to.contain(`${good.settings.authUrl}/credentials/callback`);
  });

  it('a service without metadata, that moved its issuer, or is another resource, is a problem', async () => {
    service.metadata = { token_endpoint: undefined };
    expect((await check())[0]?.outcome).to.equal('problem');
    service.metadata = { issuer: 'https://other.example' };
    expect((await check())[0]?.what).to.contain('name another issuer');
    service.metadata = {};
    service.resourceMetadata = { resource: 'https://other.example/mcp' };
    expect((await check())[0]?.what).to.contain('another resource');
  });

  it('a service that registers no clients, or refuses to, is a problem with the redirect URI in its remedy', async () => {
    service.registrationStatus = 403;
    const [refused] = await check();
    expect(refused?.what).to.contain('refuses registrations (HTTP 403)');
    expect(refused?.remedy).to.contain('/credentials/callback');
    service.metadata = { registration_endpoint: undefined };
    expect((await check())[0]?.what).to.contain('registers no clients');
  });

  it('a client that the service refuses is a problem', async () => {
    const named = { clientId: 'named', clientSecret: 'the secret' };
    expect((await check(named))[0]?.outcome).to.equal('ok');
    service.tokenAnswers = [{ status: 401, body: '{"error":"invalid_client"}' }];
    expect((await check(named))[0]?.what).to.contain('refuses our client');
  });

  it('a process that only ends credentials, and lacks the secret for it, is a warning', async () => {
    const upstream = (more: Partial<OAuth>): Upstream => ({
      ...upstreamAt(service.url),
      credential: oauth({ clientId: 'named', ...more }),
    });
    const upstreams = [upstream({ lacksSecret: true }), upstream({ clientSecret: 'the secret' })];
    const settings = { ...good.settings, upstreams, roles: ['management' as const] };
    const findings = await good.examine({ settings }, ['credential']);
    expect(findings.map(({ outcome }) => outcome)).to.deep.equal(['warning']);
    expect(findings[0]?.what).to.contain('lacks the secret');
  });

  it('scopes that the service does not list are a warning', async () => {
    service.metadata = { scopes_supported: ['read'] };
    const findings = await check({ scopes: { analytics: ['read'], full: ['admin'] } });
    expect(findings.map(({ outcome }) => outcome)).to.have.members(['ok', 'warning']);
    expect(findings.find(({ outcome }) => outcome === 'warning')?.what).to.contain('admin');
  });

  it('an exchange that the identity provider refuses to our client is a problem', async () => {
    const exchanged = async () => {
      const credential: CredentialSettings = {
        kind: 'exchange',
        style: 'exchange',
        params: {},
        header: { name: 'authorization', prefix: 'Bearer ' },
      };
      const upstreams = [{ ...upstreamAt(service.url), credential }];
      return good.examine({ settings: { ...good.settings, upstreams } }, ['credential']);
    };
    try {
      for (const error of ['invalid_client', 'unsupported_grant_type', 'access_denied']) {
        good.provider.misbehave({ tokenAnswer: [400, { error }] });
        const [refused, ...others] = await exchanged();
        expect(others).to.deep.equal([]);
        expect(refused?.outcome).to.equal('problem');
        expect(refused?.what).to.contain(`refuses token exchanges of our client (${error})`);
      }
      good.provider.misbehave({ tokenAnswer: [400, { error: 'invalid_grant' }] });
      expect((await exchanged()).map(({ outcome }) => outcome)).to.deep.equal(['ok']);
    } finally {
      good.provider.behave();
    }
  });
});
