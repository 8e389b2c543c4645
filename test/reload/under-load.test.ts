import { expect } from 'chai';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { NO_LIMITS } from '../support/no-limits.ts';
import { parseMetrics, sumOf } from '../support/metrics.ts';
import { rawRequest } from '../support/raw-request.ts';
import {
  OPENID_CLIENT,
  type OpenIdProvider,
  openIdSettings,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { startConstantLoad } from '../support/scale-out/constant-load.ts';
import type { GatehouseProcess } from '../support/scale-out/gatehouse-process.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { changeSettings } from '../support/settings-file.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { until } from '../support/until.ts';
import { startFastUpstream } from '../support/upstream/fast-upstream.ts';
import type { Upstream } from '../support/upstream/upstream-server.ts';
import { DECLARED } from '../support/upstream/upstream-tools.ts';

const RELOADS = SOAK ? 20 : 5;
const KINDS = [
  { GATEHOUSE_ROLES: 'authorization-server,management' },
  { GATEHOUSE_ROLES: 'resource-server' },
];
const LOAD = SOAK
  ? { flowsPerSecond: 2, callsPerSecond: 200, callers: 100, callsPerRefresh: 10, listeners: 50 }
  : { flowsPerSecond: 1, callsPerSecond: 40, callers: 10, callsPerRefresh: 10, listeners: 5 };
const FLOWS_BETWEEN = SOAK ? 10 : 2;
/** Generous, because this test does not measure response times. */
const MAX_RESPONSE_MS = 15_000;

describe('Reloads under load', () => {
  let provider: OpenIdProvider;
  let upstream: Upstream | undefined;
  before(async () => {
    provider = await startOpenIdProvider();
    provider.setBehaviour({ claims: { name: 'Somebody', email: 'somebody@example.com' } });
  });
  after(() => provider.stop());
  /** Each turn changes a rule, the upstream, and the secret at the identity provider. */
  const turn = (n: number) => ({
    entitlements: [{ match: { anyone: true }, level: n % 2 === 0 ? 'operations' : 'admin' }],
    resourceServer: {
      upstream: { url: upstream?.url, tools: DECLARED, headers: { 'x-turn': `turn ${n % 3}` } },
    },
    identityProvider: {
      issuer: provider.issuer,
      ...OPENID_CLIENT,
      clientSecret: `${OPENID_CLIENT.clientSecret}-${n}`,
    },
  });
  const system = useProcesses(async () => {
    upstream = await startFastUpstream();
    const { file, settings } = openIdSettings(provider, { limits: NO_LIMITS, ...turn(0) });
    return { file: file ?? {}, settings: settings ?? {}, store: 'redis', count: 1, kinds: KINDS };
  });
  before(() => upstream?.trustIssuer(system().auth));
  after(() => upstream?.close());

  it(`${RELOADS} reloads fail no request and end no connection, and old hosts close`, async () => {
    const connector = await createConnector(system());
    const tool = { name: 'whoami', given: {} };
    const working = await startConstantLoad(system(), connector, {
      ...LOAD,
      tool,
      maxMs: MAX_RESPONSE_MS,
    });
    try {
      const startedMs = performance.now();
      for (let n = 1; n <= RELOADS; n += 1) {
        changeSettings(system(), turn(n));
        const report = await requestManagement(system(), 'POST', '/settings/reload');
        expect(report).to.deep.include({ unanswered: [] });
        await working.waitForFlows(FLOWS_BETWEEN);
      }
      const seconds = (performance.now() - startedMs) / 1000;
      const { errors, done, people, afterStop } = await working.stop();
      expect(errors).to.deep.equal([]);
      expect([afterStop.refreshes, afterStop.calls]).to.deep.equal([people, people]);
      const rates = [done.calls, done.refreshes].map((count) => (count / seconds).toFixed(0));
      recordSoak({
        what: `${RELOADS} reloads beside ${LOAD.listeners} streams`,
        held: `${rates.join(' calls and ')} refreshes a second for ${seconds.toFixed(0)} s, no error, ${done.streams} streams opened`,
      });
    } finally {
      await working.close();
    }
    for (const each of system().running())
      await until('the hosts of earlier settings to close', async () => {
        const { versions } = await measured(each, system().management, system().managementKey);
        return versions === 1;
      });
  }).timeout(600_000);
});

async function measured(
  { ports, hosts }: GatehouseProcess,
  management: string,
  key: string,
): Promise<{ versions: number }> {
  if (!hosts.includes('MANAGEMENT')) return { versions: 1 };
  const { body } = await rawRequest(`http://127.0.0.1:${ports.MANAGEMENT}`, {
    path: '/metrics',
    headers: { host: new URL(management).host, authorization: `Bearer ${key}` },
  });
  return { versions: sumOf(parseMetrics(body), 'gatehouse_settings_generations') };
}
