// Every process of a system with split roles is replaced, one after the other and again and again, while people are at work; nobody notices.
import { expect } from 'chai';
import { createConnector } from '../support/administrator.ts';
import type { Connection } from '../support/connection.ts';
import { type History, recordHistory } from '../support/faults/history.ts';
import { violations } from '../support/faults/invariants.ts';
import {
  type ConstantLoad,
  type LoadOptions,
  openNotes,
  refreshAndCall,
  startConstantLoad,
} from '../support/scale-out/constant-load.ts';
import { type Processes, useProcesses } from '../support/scale-out/processes.ts';
import { SOAK } from '../support/scale-out/soak.ts';
import type { Upstream } from '../support/upstream/listening.ts';
import { startUpstreamV2 } from '../support/upstream/sdk-v2.ts';
import { DECLARED } from '../support/upstream/tools.ts';

/** As long as a balancer needs to see that a process is not ready. */
const DRAIN_SECONDS = SOAK ? 2 : 1;
const RESTARTS = SOAK ? 20 : 2;
const PROCESSES = 3;
/** The machine may be busy; how long answers take is not what this is about. */
const DEADLINE_MS = 15_000;
const AT_A_TIME = 8;
const KINDS = [
  { GATEHOUSE_ROLES: 'authorization-server,management' },
  { GATEHOUSE_ROLES: 'resource-server' },
];
const NO_LIMIT = { perAddress: '9999999/1h', inAll: '9999999/1h' };
const LIMITS = { registrations: NO_LIMIT, authorizations: NO_LIMIT, signIns: NO_LIMIT };

/**
 * With SOAK as much as the cores carry beside those who make it: nobody rests, and the rates that were reached are printed. On two cores that were
 * busy with other things, too, that was 11 whole connections, 26 refreshes and 266 calls a second. Fifty connections and five hundred calls would
 * take a core and a half of Gatehouse alone (npm run bench:scale), and as much for the browsers and clients.
 */
const LOAD = SOAK
  ? { callers: 12, newcomers: 8, callsPerRefresh: 10, pauseMs: 0 }
  : { callers: 3, newcomers: 1, callsPerRefresh: 3, pauseMs: 40 };

/** The balancer asks /readyz every 100 ms and leaves out who says no, as most do, and tries another one when a connection is refused, as nginx does. */
function claims(processes: () => Processes, load: Omit<LoadOptions, keyof typeof LOAD>): void {
  it(`are told to stop and replaced, ${RESTARTS} times, and nobody is refused, cut off or disconnected`, async () => {
    const system = processes();
    const connector = await createConnector(system);
    const history = recordHistory([system.auth, system.resource]);
    try {
      const working = await startConstantLoad(system, connector, { ...LOAD, ...load });
      const begun = performance.now();
      for (let n = 0; n < RESTARTS; n += 1) {
        await replace(system, n);
        await working.goesOn();
      }
      const seconds = (performance.now() - begun) / 1000;
      await working.stop();
      if (SOAK) console.log(`      ${describeRates(working, seconds)}`);
      await expectEverybodyConnected(working, load.tool);
      expectNothingWrong(system, working, history);
      expect(working.done.streams).to.be.at.least(load.listeners === 0 ? 0 : load.listeners + 1);
    } finally {
      history.stop();
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

/** Also who connected long ago and did nothing since. */
async function expectEverybodyConnected({ connections }: ConstantLoad, tool: string) {
  const notes = openNotes();
  const left: Connection[] = [...connections];
  const work = async () => {
    for (let each = left.pop(); each; each = left.pop())
      await refreshAndCall(each, { tool, callsPerRefresh: 1 }, notes);
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, work));
  expect(notes.wrong).to.deep.equal([]);
  const { refreshes, calls } = notes.done;
  expect([refreshes, calls]).to.deep.equal([connections.length, connections.length]);
}

function expectNothingWrong({ answers }: Processes, { wrong }: ConstantLoad, history: History) {
  expect(wrong).to.deep.equal([]);
  expect(violations(history.exchanges, { deadline: DEADLINE_MS })).to.deep.equal([]);
  expect(answers.filter(({ status }) => status >= 500 && status !== 503)).to.deep.equal([]);
}

function describeRates({ done, connections }: ConstantLoad, seconds: number): string {
  const { flows, refreshes, calls, streams } = done;
  const rates = Object.entries({ flows, refreshes, calls }).map(
    ([what, count]) => `${(count / seconds).toFixed(1)} ${what}/s`,
  );
  const load = `${rates.join(', ')} and ${streams} streams for ${seconds.toFixed(0)} s`;
  return `${RESTARTS} restarts under ${load}; ${connections.length} people are connected`;
}

describe(`${PROCESSES} authorization servers and ${PROCESSES} resource servers on one Redis`, () => {
  const settings = { drain: `${DRAIN_SECONDS}s`, limits: LIMITS };

  if (SOAK)
    describe('with the built-in sample', () => {
      claims(
        useProcesses(() => ({ store: 'redis', count: PROCESSES, kinds: KINDS, file: settings })),
        { tool: 'club_overview', listeners: 0 },
      );
    });

  describe('before the MCP server of an operator', () => {
    let upstream: Upstream | undefined;
    const processes = useProcesses(async () => {
      upstream = await startUpstreamV2();
      const resourceServer = { upstream: { url: upstream.url, tools: DECLARED } };
      const file = { ...settings, resourceServer };
      return { store: 'redis', count: PROCESSES, kinds: KINDS, file };
    });
    before(() => upstream?.trust(processes().auth));
    after(() => upstream?.close());
    claims(processes, { tool: 'whoami', listeners: 3 });
  });
});
