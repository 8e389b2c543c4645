import { expect } from 'chai';
import type { Reload } from '../../src/management/resources/settings.ts';
import { freePorts } from '../support/free-ports.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { NO_LIMITS } from '../support/no-limits.ts';
import { parseMetrics, sumOf } from '../support/metrics.ts';
import {
  OPENID_CLIENT,
  type OpenIdProvider,
  openIdSettings,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { startConstantLoad } from '../support/scale-out/constant-load.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { changeSettings } from '../support/settings-file.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { until } from '../support/until.ts';
import { startFastUpstream } from '../support/upstream/fast-upstream.ts';
import type { Upstream } from '../support/upstream/upstream-server.ts';
import { DECLARED } from '../support/upstream/upstream-tools.ts';

const RELOADS = SOAK ? 20 : 5;
/** Each process with its metrics. */
const [METRICS_OF_AUTH, METRICS_OF_RESOURCE] = await freePorts(2);
const KINDS = [
  {
    GATEHOUSE_ROLES: 'authorization-server,management',
    GATEHOUSE_METRICS_LISTEN: `127.0.0.1:${METRICS_OF_AUTH}`,
  },
  {
    GATEHOUSE_ROLES: 'resource-server',
    GATEHOUSE_METRICS_LISTEN: `127.0.0.1:${METRICS_OF_RESOURCE}`,
  },
];
const LOAD = SOAK
  ? { flowsPerSecond: 2, callsPerSecond: 200, callers: 100, callsPerRefresh: 10, listeners: 50 }
  : { flowsPerSecond: 1, callsPerSecond: 40, callers: 10, callsPerRefresh: 10, listeners: 5 };
const FLOWS_BETWEEN = SOAK ? 10 : 2;
/** Whose hosts are in memory at the end: some are still referred to after they have closed. */
const MAX_VERSIONS = SOAK ? 8 : 4;
/** Of the heap of a process after a full collection: people who connected meanwhile are cached, and code was compiled. */
const MAX_GROWN_MB = 60;
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
      clientSecret: secretOf(n),
    },
  });
  const secretOf = (n: number) => `${OPENID_CLIENT.clientSecret}-${n}`;
  const heldMemory = () =>
    Promise.all(
      system()
        .running()
        .map((each) => each.heldMemory()),
    );
  const system = useProcesses(async () => {
    upstream = await startFastUpstream();
    const { file, settings } = openIdSettings(provider, { limits: NO_LIMITS, ...turn(0) });
    return { file: file ?? {}, settings: settings ?? {}, store: 'redis', count: 1, kinds: KINDS };
  });
  before(() => upstream?.trustIssuer(system().auth));
  after(() => upstream?.close());

  it(`${RELOADS} reloads fail no request, end no connection, and return their memory`, async () => {
    // Not under load, because it stops the process.
    const atStart = await heldMemory();
    const connector = await createConnector(system());
    const tool = { name: 'whoami', given: {} };
    const working = await startConstantLoad(system(), connector, {
      ...LOAD,
      tool,
      maxMs: MAX_RESPONSE_MS,
    });
    try {
      const reload = async (n: number) => {
        changeSettings(system(), turn(n));
        const { changed, unanswered } = (await requestManagement(
          system(),
          'POST',
          '/settings/reload',
        )) as Reload;
        expect(unanswered).to.deep.equal([]);
        expect(changed).to.include.members([
          'entitlements',
          'identityProvider.clientSecret',
          'resourceServer.upstreams.default.headers.x-turn',
        ]);
        await working.waitForFlows(FLOWS_BETWEEN);
      };
      const startedMs = performance.now();
      for (let n = 1; n <= RELOADS; n += 1) await reload(n);
      const seconds = (performance.now() - startedMs) / 1000;
      const { errors, done, people, afterStop } = await working.stop();
      expect(errors).to.deep.equal([]);
      expect(done.retries).to.equal(0);
      expect([afterStop.refreshes, afterStop.calls]).to.deep.equal([people, people]);
      expect(provider.clientSecrets).to.include(secretOf(RELOADS));
      for (const port of [METRICS_OF_AUTH, METRICS_OF_RESOURCE])
        await until('the hosts of earlier settings to close', async () => {
          const response = await fetch(`http://127.0.0.1:${port}/metrics`);
          const samples = parseMetrics(await response.text());
          return sumOf(samples, 'gatehouse_settings_generations') === 1;
        });
      // Connections that end and timers refer to earlier hosts for some seconds.
      const after = await until('the hosts of earlier settings to be collected', async () => {
        const held = await heldMemory();
        const isFew = held.every(({ apps }, n) => apps <= MAX_VERSIONS * (atStart[n]?.apps ?? 0));
        return isFew ? held : undefined;
      });
      const grown = after.map((held, n) =>
        Math.round((held.bytes - (atStart[n]?.bytes ?? 0)) / 2 ** 20),
      );
      for (const megabytes of grown) expect(megabytes).to.be.below(MAX_GROWN_MB);
      const rates = [done.calls, done.refreshes].map((count) => (count / seconds).toFixed(0));
      recordSoak({
        what: `${RELOADS} reloads beside ${LOAD.listeners} streams`,
        held: `${rates.join(' calls and ')} refreshes a second for ${seconds.toFixed(0)} s, no error, ${done.streams} streams opened, heap ${grown.join(' and ')} MB larger at the end`,
      });
    } finally {
      await working.close();
    }
  }).timeout(600_000);
});
