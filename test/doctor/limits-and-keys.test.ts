import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { expect } from 'chai';
import type { TrustedIssuer } from '../../src/settings/identity-provider-schema.ts';
import { loadSettings } from '../../src/settings/load.ts';
import type { Settings } from '../../src/settings/settings.ts';
import type { Upstream } from '../../src/settings/upstreams.ts';
import { listenOnLoopback, type LoopbackServer } from '../support/loopback-server.ts';
import { makeCertificate } from '../oauth/metadata-documents/certificate.ts';
import { temporaryDirectory } from '../settings/settings-file.ts';
import { type Platform, startPlatform } from '../support/workload-platform.ts';
import { examineSettings } from './fault.ts';

const SETTINGS = loadSettings({ GATEHOUSE_SECRET: 'a root secret of more than 32 characters' });

const check = (name: string, changed: Partial<Settings>) =>
  examineSettings({ ...SETTINGS, ...changed }, [name]);

describe("doctor's check of the keys of trusted issuers", () => {
  let issuer: LoopbackServer;
  let body = '';
  before(async () => {
    issuer = await listenOnLoopback(createServer((_req, res) => res.end(body)));
  });
  after(() => issuer.stop());

  async function checkKeys(jwksUri: string) {
    const trusted = { issuer: 'https://login.example.com', jwksUri } as TrustedIssuer;
    const authorization = { ...SETTINGS.authorization, trustedIssuers: [trusted] };
    const [finding, ...others] = await check('issuer-keys', { authorization });
    expect(others).to.deep.equal([]);
    return finding;
  }

  it('keys with an id pass, keys without one are a warning that names jwks, and a response without keys is a problem', async () => {
    const keysWith = (...ids: object[]) => {
      body = JSON.stringify({ keys: ids.map((id) => ({ kty: 'EC', crv: 'P-256', ...id })) });
      return checkKeys(`${issuer.origin}/keys`);
    };
    expect(await keysWith({ kid: 'one' }, { kid: 'two' })).to.include({ outcome: 'ok' });
    const unnamed = await keysWith({ kid: 'one' }, {});
    expect(unnamed?.outcome).to.equal('warning');
    expect(unnamed?.what).to.include('1 of 2 keys');
    expect(unnamed?.remedy).to.include('set jwks in place of jwksUri');
    expect(await keysWith()).to.include({ outcome: 'problem' });
    const gone = await checkKeys('http://no-such-host.invalid/keys');
    expect(gone?.outcome).to.equal('problem');
    expect(gone?.what).to.include('does not resolve');
  });
});

describe("doctor's check of the keys of workloads", () => {
  const authority = { name: 'Cluster', ...makeCertificate('Cluster') };
  let cluster: Platform;
  before(async () => {
    const certificate = makeCertificate('localhost', undefined, authority);
    cluster = await startPlatform({ certificate, requiredToken: () => 'doctor' });
  });
  after(() => cluster.stop());

  async function checkCluster(more: Partial<TrustedIssuer>) {
    const trusted = { issuer: cluster.issuer, workloads: [{}], ...more } as TrustedIssuer;
    const authorization = { ...SETTINGS.authorization, trustedIssuers: [trusted] };
    return (await check('issuer-keys', { authorization }))[0];
  }

  it('WIF-11 doctor fetches the keys of a cluster with its files, and names the one that is missing', async () => {
    const folder = temporaryDirectory();
    const [caFile, tokenFile] = [join(folder, 'ca.crt'), join(folder, 'token')];
    writeFileSync(caFile, authority.cert);
    writeFileSync(tokenFile, 'doctor');
    expect(await checkCluster({ caFile, tokenFile })).to.include({ outcome: 'ok' });
    const untrusted = await checkCluster({ tokenFile });
    expect(untrusted).to.include({ outcome: 'problem' });
    expect(untrusted?.remedy).to.include('caFile');
    const unauthorized = await checkCluster({ caFile });
    expect(unauthorized?.what).to.include('answered 401');
    const gone = await checkCluster({ caFile, tokenFile: join(folder, 'none') });
    expect(gone?.what).to.include('ENOENT');
    const internal = await checkCluster({ jwksUri: 'https://10.0.0.1/keys' });
    expect(internal?.remedy).to.include('privateNetwork: true');
  });
});

describe("doctor's check of workloads", () => {
  it('audiences other than this server are a warning', async () => {
    const trusted = { audiences: ['api://tools'], workloads: [] } as unknown as TrustedIssuer;
    const authorization = { ...SETTINGS.authorization, trustedIssuers: [trusted] };
    const found = await check('settings', { authorization });
    const warnings = found.filter(({ outcome }) => outcome === 'warning');
    expect(warnings.map(({ about }) => about)).to.include(
      'authorization.trustedIssuers[0].audiences',
    );
  });
});

describe("doctor's check of limits", () => {
  it('a limit on the calls of a connection that the limit of a person makes useless is a warning', async () => {
    const settingsIn = async (perConnection: object) => {
      const calls = { perPerson: { count: 60, seconds: 600 }, perConnection };
      const found = await check('settings', { limits: { ...SETTINGS.limits, calls } as never });
      return found.filter(({ outcome }) => outcome === 'warning').map(({ about }) => about);
    };
    const setting = 'limits.calls.perConnection';
    expect(await settingsIn({ count: 60, seconds: 60 })).to.include(setting);
    expect(await settingsIn({ count: 59, seconds: 60 })).to.not.include(setting);
    expect(await settingsIn({ count: 600, seconds: 6000 })).to.not.include(setting);
  });

  it('a limit for one caller above that for all, and a heartbeat that is not shorter than the silence, are warnings', async () => {
    const upstream = {
      setting: 'resourceServer.upstream',
      openCalls: { perCaller: 10, inAll: 5 },
      silence: 20,
    } as Upstream;
    const resourceServer = {
      ...SETTINGS.resourceServer,
      heldBytes: { perCaller: 2 ** 30, inAll: 2 ** 20 },
    };
    const warnings = async (changed: Partial<Settings>) =>
      (await check('settings', changed)).flatMap(({ outcome, about }) =>
        outcome === 'warning' ? about : [],
      );
    expect(await warnings({})).to.deep.equal([]);
    expect(await warnings({ resourceServer, upstreams: [upstream] })).to.deep.equal([
      'resourceServer.heldBytes',
      'resourceServer.upstream.openCalls',
      'resourceServer.heartbeat',
    ]);
  });
});
