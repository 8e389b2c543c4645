// What clients see while Redis has a fault, and afterwards.
import { expect } from 'chai';
import { advanceClock, restoreClock } from '../clock.ts';
import type { Connection } from '../connection.ts';
import { isAccepted } from '../mcp.ts';
import { refresh } from '../oauth.ts';
import { recordSoak, SOAK } from '../soak.ts';
import { until } from '../until.ts';
import { prepareEveryRequest, statusesWhen } from './every-request.ts';
import { unusedRefreshTokens, violations } from './invariants.ts';
import { connectAnew, type Load, refreshAndCall } from './load.ts';
import { type FaultySystem, startFaultySystem } from './system-under-load.ts';

export type Fault = {
  what: string;
  begin: (target: FaultySystem) => unknown;
  heal: (target: FaultySystem) => unknown;
  /** The kinds of requests that still succeed. Undefined if that varies. */
  works?: Parameters<typeof statusesWhen>[0];
  /** How often each client refreshes and calls during the fault, at least. */
  rounds?: number;
  /** Limit of every response time in milliseconds, in the long run. */
  maxMs?: number;
};

const TIMES = SOAK ? 20 : 1;
const ROUND_MS = 4000;
const MAX_RESPONSE_MS = 1500;
const REVOKED_EVERYWHERE_SECONDS = 61;

/** A new system for each test of the surrounding `describe`. */
export function useFaultySystem(): () => FaultySystem {
  let target: FaultySystem | undefined;
  beforeEach(async () => {
    target = await startFaultySystem();
  });
  afterEach(async () => {
    restoreClock();
    await target?.close();
  });
  return () => {
    if (!target) throw new Error('the system runs only during tests');
    return target;
  };
}

/** Defines a test for each fault. */
export function itSurvives(faults: readonly Fault[], faulty: () => FaultySystem): void {
  for (const { what, begin, heal, works, rounds = 1, maxMs = MAX_RESPONSE_MS } of faults)
    it(`while Redis ${what}, requests get 503 or succeed, no grant ends, and afterwards everything works`, async () => {
      const target = faulty();
      const { system, connector, history } = target;
      const requests = await prepareEveryRequest(system, connector);
      const load = await target.startLoad({ connecting: SOAK || !works });
      await begin(target);
      await load.rounds(rounds * TIMES);
      if (works) expect(await requests.send()).to.deep.equal(statusesWhen(works));
      await heal(target);
      await untilConnectWorks(target);
      if (works) expect(await requests.finish()).to.deep.equal([200, 200, 200]);
      await load.rounds(1);
      await load.stop();
      await expectClientsWork(target, load, works ? [requests.leaving] : []);
      expect(violations(history, SOAK ? { maxMs } : {})).to.deep.equal([]);
      recordSoak({
        what: `clients while Redis ${what}`,
        held: `${history.length} requests, ${load.connections.length} grants, none ended; each response within ${maxMs} ms`,
      });
    }).timeout(60_000 + rounds * TIMES * ROUND_MS);
}

async function untilConnectWorks({ system, connector }: FaultySystem): Promise<void> {
  let failure: unknown;
  const works = async () => {
    try {
      await refreshAndCall(await connectAnew(system, connector));
      return true;
    } catch (error) {
      failure = error;
      return false;
    }
  };
  await until('connect, refresh and call to work', works).catch((cause: unknown) => {
    throw new Error(`${String(cause)}, the last time: ${String(failure)}`);
  });
}

/** Expects that the latest tokens of every client work, and that revoked and unused earlier tokens do not. */
async function expectClientsWork(
  { history }: FaultySystem,
  load: Load,
  alsoRevoked: readonly Connection[],
): Promise<void> {
  for (const { server, client, refreshToken } of load.connections)
    expect((await refresh(server, client, refreshToken)).status).to.equal(200);
  expect(unusedRefreshTokens(history)).to.deep.equal([]);
  advanceClock(REVOKED_EVERYWHERE_SECONDS);
  for (const { link, accessToken } of [...load.revoked, ...alsoRevoked])
    expect(await isAccepted(link, accessToken)).to.equal(false);
}
