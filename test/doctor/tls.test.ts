// TLS mistakes at every address that Gatehouse connects to: doctor and the log explain them in the same words.
import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import { expect } from 'chai';
import type { Finding } from '../../src/doctor/report.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { OPENID_CLIENT } from '../support/openid-provider.ts';
import { type LogLine, startSystem } from '../support/system.ts';
import { TLS_FAULTS } from '../support/tls-faults.ts';
import { traceSettings } from '../support/trace-collector.ts';
import { until } from '../support/until.ts';
import { upstreamAt } from './fault.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';

const RAW = /SSL routines|EPROTO|ERR_SSL|wrong version number/;

describe("doctor's explanations of TLS mistakes", () => {
  let good: GoodDeployment;
  const servers: Server[] = [];
  before(async () => {
    good = await startGoodDeployment();
  });
  after(async () => {
    for (const server of servers) server.close();
    await good.stop();
  });

  /** The origin, with https, of a server with the fault. */
  async function originWith(fault: string): Promise<string> {
    const server = TLS_FAULTS.find((each) => each.fault === fault)?.open();
    if (!server) throw new Error(`there is no fault ${fault}`);
    servers.push(server);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return `https://localhost:${(server.address() as AddressInfo).port}`;
  }

  function expectExplained(findings: Finding[], what: RegExp, remedy: RegExp): void {
    const [finding] = findings.filter(({ outcome }) => outcome !== 'ok');
    expect(finding?.what).to.match(what);
    expect(finding?.remedy).to.match(remedy);
    expect(JSON.stringify(findings)).to.not.match(RAW);
  }

  it('SUP-03 plain http at a public https address is a problem that says where to terminate TLS', async () => {
    const authUrl = await originWith('plain http behind an https address');
    const findings = await good.examine({ authUrl }, ['reach', 'certificate']);
    expectExplained(findings, /it responds without TLS/, /terminate TLS at the proxy/);
    const [certificate] = findings.filter(
      ({ check, about }) => check === 'certificate' && about === authUrl,
    );
    expect(certificate?.what).to.match(/no TLS connection: the server responds without TLS/);
  });

  it('a private authority at a public address is a problem that names it, and no missing intermediate', async () => {
    const authUrl = await originWith('a certificate of a private authority');
    const findings = await good.examine({ authUrl }, ['certificate']);
    expectExplained(
      findings,
      /not issued by a trusted authority, but by Example Internal Authority/,
      /NODE_EXTRA_CA_CERTS/,
    );
    expect(JSON.stringify(findings)).to.not.include('intermediate');
  });

  it('a TLS mistake of the identity provider, the MCP server, Redis or the trace collector is explained, with what to do', async () => {
    const { settings } = good;
    const issuer = await originWith('a certificate of a private authority');
    const identityProviders = settings.identityProviders.map((each) => ({ ...each, issuer }));
    const upstream = upstreamAt(await originWith('plain http behind an https address'));
    const redis = await originWith('a plain Redis behind a TLS address');
    const store = { kind: 'redis' as const, url: redis.replace('https:', 'rediss:') };
    const endpoint = await originWith('a self-signed certificate');
    const traced = loadSettings({ ...good.environment, ...traceSettings({ endpoint }) });
    const [provider, mcp, database, collector] = await Promise.all([
      good.examine({ settings: { ...settings, identityProviders } }, ['identity-provider']),
      good.examine({ settings: { ...settings, upstreams: [upstream] } }, ['upstream']),
      good.examine({ settings: { ...settings, store } }, ['store']),
      good.examine({ settings: traced }, ['traces']),
    ]);
    expectExplained(provider, /its authority is private/, /NODE_EXTRA_CA_CERTS/);
    expectExplained(mcp, /MCP server responds without TLS/, /correct the scheme/);
    expectExplained(database, /it responds without TLS/, /correct the scheme/);
    expectExplained(collector, /self-signed/, /NODE_EXTRA_CA_CERTS/);
  });

  it('the log explains at the start the TLS mistakes of the identity provider and the MCP server', async () => {
    const log: LogLine[] = [];
    const issuer = await originWith('an expired certificate');
    const url = await originWith('plain http behind an https address');
    const system = await startSystem({
      log,
      settings: { GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
      file: {
        developmentIdp: undefined,
        identityProvider: { issuer, ...OPENID_CLIENT },
        management: { administrators: [] },
        resourceServer: { upstream: { url } },
      },
    });
    try {
      const found = async (what: string, words: RegExp) =>
        until(`the log to explain ${what}`, () =>
          log.find((line) => line.what === what && words.test(String(line.reason))),
        );
      expect((await found(issuer, /has an expired certificate/)).remedy).to.match(/renew/);
      expect((await found(`${url}/`, /responds without TLS/)).remedy).to.match(/scheme/);
      expect(JSON.stringify(log)).to.not.match(RAW);
    } finally {
      await system.stop();
    }
  });
});
