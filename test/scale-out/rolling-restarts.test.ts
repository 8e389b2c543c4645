import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import {
  type LoadOptions,
  type Report,
  startConstantLoad,
} from '../support/scale-out/constant-load.ts';
import {
  type OpenIdProvider,
  openIdSettings,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { NO_LIMITS } from '../support/no-limits.ts';
import { type Processes, useProcesses } from '../support/scale-out/processes.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import type { Upstream } from '../support/upstream/upstream-server.ts';
import { startFastUpstream } from '../support/upstream/fast-upstream.ts';
import { DECLARED } from '../support/upstream/upstream-tools.ts';

/** Longer than a balancer needs to see that a process is not ready. */
const DRAIN_SECONDS = 2;
const RESTARTS = 20;
const PROCESSES = 3;
/** Generous, because this test does not measure response times. */
const MAX_RESPONSE_MS = 15_000;
const KINDS = [
  { GATEHOUSE_ROLES: 'authorization-server,management' },
  { GATEHOUSE_ROLES: 'resource-server' },
];

/** Half of what two idle cores can carry that Gatehouse, Redis and the load generator share. */
const LOAD = { flowsPerSecond: 20, callsPerSecond: 200, callers: 200, callsPerRefresh: 15 };
/** A process is slow just after its start. */
const FLOWS_BETWEEN = 120;

/**
 * The balancer works like Kubernetes: connections go to the ready processes in turn, and /readyz is polled every 150 ms.
 * It tries another process only if a connection is refused.
 */
function testRestarts(
  processes: () => Processes,
  server: string,
  load: Pick<LoadOptions, 'tool' | 'listeners'>,
): void {
  it(`${RESTARTS} rolling restarts under load fail no request, cut no stream and end no grant`, async () => {
    const system = processes();
    const connector = await createConnector(system);
    const options = { ...LOAD, ...load, maxMs: MAX_RESPONSE_MS };
    const working = await startConstantLoad(system, connector, options);
    try {
      const startedMs = performance.now();
      for (let n = 0; n < RESTARTS; n += 1) {
        await replace(system, n);
        await working.waitForFlows(FLOWS_BETWEEN);
      }
      const seconds = (performance.now() - startedMs) / 1000;
      const report = await working.stop();
      const { errors, done, people, afterStop } = report;
      expect(errors).to.deep.equal([]);
      expect([afterStop.refreshes, afterStop.calls]).to.deep.equal([people, people]);
      expect(done.streams).to.be.at.least(load.listeners === 0 ? 0 : load.listeners + 1);
      const what = `${RESTARTS} rolling restarts with ${server}`;
      recordSoak({ what, held: describeRates(report, seconds) });
    } finally {
      await working.close();
    }
  }).timeout(1_200_000);
}

/** Replaces the oldest process, alternating between the kinds. */
async function replace(system: Processes, turn: number): Promise<void> {
  const kind = KINDS[turn % KINDS.length];
  const host = kind === KINDS[0] ? 'AUTH' : 'RESOURCE';
  const leaving = system.running().find(({ hosts }) => hosts.includes(host));
  expect(await leaving?.stop()).to.equal(0);
  await system.add(kind);
  expect(system.running()).to.have.length(KINDS.length * PROCESSES);
}

function describeRates({ due, done, people }: Report, seconds: number): string {
  const { flows, refreshes, calls, streams, retries } = done;
  const rates = Object.entries({ flows, refreshes, calls }).map(
    ([what, count]) => `${(count / seconds).toFixed(1)} ${what}/s`,
  );
  const load = `${rates.join(', ')} and ${streams} streams for ${seconds.toFixed(0)} s`;
  const kept = `${flows} of ${due.flows} flows and ${calls} of ${due.calls} requested calls`;
  return `${load}: ${kept}, ${retries} retries; ${people} people connected`;
}

// The tests of restarts show the same with less load.
if (SOAK)
  describe(`Rolling restarts of ${PROCESSES} authorization servers and ${PROCESSES} resource servers`, () => {
    const entitlements = [{ match: { anyone: true }, level: 'operations' }];
    const settings = { drain: `${DRAIN_SECONDS}s`, limits: NO_LIMITS, entitlements };
    let provider: OpenIdProvider;
    before(async () => {
      provider = await startOpenIdProvider();
      provider.setBehaviour({ claims: { name: 'Somebody', email: 'somebody@example.com' } });
    });
    after(() => provider.stop());
    const running = (file = {}) => {
      const signingIn = openIdSettings(provider, { ...settings, ...file });
      return { ...signingIn, store: 'redis' as const, count: PROCESSES, kinds: KINDS };
    };

    describe('with the built-in sample', () => {
      testRestarts(
        useProcesses(() => running()),
        'the built-in sample',
        { tool: { name: 'membership_breakdown', given: { by: 'plan' } }, listeners: 0 },
      );
    });

    describe('with an upstream MCP server', () => {
      let upstream: Upstream | undefined;
      const processes = useProcesses(async () => {
        upstream = await startFastUpstream();
        return running({ resourceServer: { upstream: { url: upstream.url, tools: DECLARED } } });
      });
      before(() => upstream?.trustIssuer(processes().auth));
      after(() => upstream?.close());
      testRestarts(processes, 'an upstream MCP server', {
        tool: { name: 'whoami', given: {} },
        listeners: 3,
      });
    });
  });
