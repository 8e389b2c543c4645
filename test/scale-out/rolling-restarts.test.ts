// Every process of a system with split roles is replaced, one after the other and again and again, while people are at work; nobody notices.
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
import { SOAK } from '../support/scale-out/soak.ts';
import type { Upstream } from '../support/upstream/upstream-server.ts';
import { startFastUpstream } from '../support/upstream/fast-upstream.ts';
import { DECLARED } from '../support/upstream/upstream-tools.ts';

/** As long as a balancer needs to see that a process is not ready. */
const DRAIN_SECONDS = SOAK ? 2 : 1;
const RESTARTS = SOAK ? 20 : 2;
const PROCESSES = 3;
/** The machine may be busy; how long answers take is not what this is about. */
const DEADLINE_MS = 15_000;
const KINDS = [
  { GATEHOUSE_ROLES: 'authorization-server,management' },
  { GATEHOUSE_ROLES: 'resource-server' },
];

/**
 * With SOAK as much as two cores carry which Gatehouse, Redis and this load share; what was asked for and what was done is printed. So many flows go
 * on between two replacements, and what was left behind is caught up: a process that just started is slow for a while.
 */
const LOAD = SOAK
  ? { flowsPerSecond: 50, callsPerSecond: 500, callers: 200, callsPerRefresh: 15 }
  : { flowsPerSecond: 4, callsPerSecond: 20, callers: 4, callsPerRefresh: 3 };
const FLOWS_BETWEEN = SOAK ? 300 : 4;

/**
 * Connections go to the processes in turn. Each is asked /readyz every 100 ms and left out when it says no, as by Kubernetes; when a connection is
 * refused another one is tried, and nothing else is.
 */
function claims(processes: () => Processes, load: Pick<LoadOptions, 'tool' | 'listeners'>): void {
  it(`are told to stop and replaced, ${RESTARTS} times, and nobody is refused, cut off or disconnected`, async () => {
    const system = processes();
    const connector = await createConnector(system);
    const options = { ...LOAD, ...load, maxMs: DEADLINE_MS };
    const working = await startConstantLoad(system, connector, options);
    try {
      const begun = performance.now();
      for (let n = 0; n < RESTARTS; n += 1) {
        await replace(system, n);
        await working.waitForFlows(FLOWS_BETWEEN);
      }
      const seconds = (performance.now() - begun) / 1000;
      const report = await working.stop();
      if (SOAK) console.log(`      ${describeRates(report, seconds)}`);
      const { errors, done, people, afterStop } = report;
      expect(errors).to.deep.equal([]);
      expect([afterStop.refreshes, afterStop.calls]).to.deep.equal([people, people]);
      expect(done.streams).to.be.at.least(load.listeners === 0 ? 0 : load.listeners + 1);
    } finally {
      await working.close();
    }
  }).timeout(SOAK ? 1_200_000 : 60_000);
}

/** The one that has run longest of each kind in turn. */
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
  const kept = `${flows} of ${due.flows} flows and ${calls} of ${due.calls} calls that were asked for`;
  return `${RESTARTS} restarts under ${load}: ${kept}, ${retries} put off; ${people} people are connected`;
}

describe(`${PROCESSES} authorization servers and ${PROCESSES} resource servers on one Redis`, () => {
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

  if (SOAK)
    describe('with the built-in sample', () => {
      claims(
        useProcesses(() => running()),
        { tool: { name: 'membership_breakdown', given: { by: 'plan' } }, listeners: 0 },
      );
    });

  describe('before the MCP server of an operator', () => {
    let upstream: Upstream | undefined;
    const processes = useProcesses(async () => {
      upstream = await startFastUpstream();
      return running({ resourceServer: { upstream: { url: upstream.url, tools: DECLARED } } });
    });
    before(() => upstream?.trustIssuer(processes().auth));
    after(() => upstream?.close());
    claims(processes, { tool: { name: 'whoami', given: {} }, listeners: 3 });
  });
});
