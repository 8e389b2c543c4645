import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect } from '../support/connection.ts';
import { prepareEveryRequest, statusesWhen } from '../support/faults/every-request.ts';
import { unusedRefreshTokens, violations } from '../support/faults/invariants.ts';
import { refreshAndCall } from '../support/faults/load.ts';
import type { Action } from '../support/faults/redis-proxy.ts';
import { startSystemUnderLoad, type SystemUnderLoad } from '../support/faults/system-under-load.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { SOAK } from '../support/soak.ts';
import { until } from '../support/until.ts';

type Fault = {
  what: string;
  begin: (target: SystemUnderLoad) => unknown;
  heal: (target: SystemUnderLoad) => unknown;
  /** The kinds of requests that still succeed. Undefined if that varies. */
  works?: Parameters<typeof statusesWhen>[0];
  /** How often each client refreshes and calls during the fault, at least. */
  rounds?: number;
  /** Limit of every response time in milliseconds. */
  maxMs?: number;
};

const RECOVERY_SECONDS = 10;
const TIMES = SOAK ? 20 : 1;
const ROUND_MS = 4000;
const CALLS_WITHOUT_STORE_SECONDS = 45;
const REVOKED_EVERYWHERE_SECONDS = 61;

const FAULTS: Fault[] = [
  {
    what: 'is stopped and started again',
    begin: ({ redis }) => redis.stop('SIGTERM'),
    heal: ({ redis }) => redis.start(),
    works: [],
  },
  {
    what: 'is killed and started again',
    begin: ({ redis }) => redis.stop('SIGKILL'),
    heal: ({ redis }) => redis.start(),
    works: [],
  },
  {
    what: 'is frozen',
    begin: ({ redis }) => redis.signal('SIGSTOP'),
    heal: ({ redis }) => redis.signal('SIGCONT'),
    works: [],
  },
  {
    what: 'is unreachable',
    begin: ({ proxy }) => proxy.disconnect(),
    heal: ({ proxy }) => proxy.allowConnections(),
    works: [],
  },
  {
    what: 'does not reply on open connections',
    begin: ({ proxy }) => proxy.setRule(() => 'drop'),
    heal: ({ proxy }) => proxy.setRule(),
    works: [],
  },
  {
    what: 'is full',
    begin: ({ redis }) => redis.command('CONFIG', 'SET', 'maxmemory', 1),
    heal: ({ redis }) => redis.command('CONFIG', 'SET', 'maxmemory', 0),
    works: ['reads', 'removes'],
  },
  {
    what: 'lacks the replicas that writes require',
    begin: ({ redis }) => redis.command('CONFIG', 'SET', 'min-replicas-to-write', 1),
    heal: ({ redis }) => redis.command('CONFIG', 'SET', 'min-replicas-to-write', 0),
    works: ['reads'],
  },
  {
    // The Redis client reconnects after every refused write, to find the master.
    what: 'becomes a replica, as after a failover',
    begin: ({ redis }) => redis.command('REPLICAOF', '127.0.0.1', 1),
    heal: ({ redis }) => redis.command('REPLICAOF', 'NO', 'ONE'),
  },
  {
    what: 'loses the connection in one command of ten',
    begin: ({ proxy }) => proxy.setRule(cutOneIn(10)),
    heal: ({ proxy }) => proxy.setRule(),
    rounds: 20,
  },
  {
    what: 'loses the connection in one command of five',
    begin: ({ proxy }) => proxy.setRule(cutOneIn(5)),
    heal: ({ proxy }) => proxy.setRule(),
    rounds: 20,
  },
  {
    what: 'is slow',
    begin: ({ proxy }) => proxy.delayReplies(200),
    heal: ({ proxy }) => proxy.delayReplies(0),
    // Nothing fails, but a page needs a dozen commands.
    maxMs: 3000,
  },
];

/** Alternately in the middle of the command and after its execution. */
function cutOneIn(every: number) {
  let commands = 0;
  return ({ kind }: { kind: string }): Action => {
    if (!kind || ++commands % every !== 0) return 'pass';
    return commands % (2 * every) === 0 ? 'cut' : 'cut reply';
  };
}

describe('Clients of a faulty Redis', () => {
  let target: SystemUnderLoad;
  beforeEach(async () => {
    target = await startSystemUnderLoad();
  });
  afterEach(async () => {
    restoreClock();
    await target?.close();
  });

  for (const { what, begin, heal, works, rounds = 1, maxMs } of FAULTS)
    it(`while Redis ${what}, requests get 503 or succeed, no grant ends, and afterwards everything works`, async () => {
      const { system, connector, load } = target;
      const requests = await prepareEveryRequest(system, connector);
      await begin(target);
      await load.rounds(rounds * TIMES);
      if (works) expect(await requests.send()).to.deep.equal(statusesWhen(works));
      await heal(target);
      await untilConnectWorks(target);
      if (works) expect(await requests.finish()).to.deep.equal([200, 200]);
      await load.rounds(1);
      await load.stop();
      await expectClientsWork(target);
      expect(violations(target.history, maxMs ? { maxMs } : {})).to.deep.equal([]);
    }).timeout(40_000 + rounds * TIMES * ROUND_MS);

  it(`calls succeed for ${CALLS_WITHOUT_STORE_SECONDS} s after Redis became unreachable, and then get 503`, async () => {
    const { system, proxy, connector, load } = target;
    await load.stop();
    const { accessToken } = await connect(system, connector);
    const call = () => callTool(connector.link, accessToken, 'club_overview');
    expect((await call()).status).to.equal(200);
    proxy.disconnect();
    advanceClock(CALLS_WITHOUT_STORE_SECONDS - 5);
    expect((await call()).status).to.equal(200);
    advanceClock(6);
    expect((await call()).status).to.equal(503);
    proxy.allowConnections();
    await until('calls to work', async () => (await call()).status === 200, RECOVERY_SECONDS);
    expect(violations(target.history)).to.deep.equal([]);
  });

  it('an administrator can revoke a connect link while Redis is full', async () => {
    const { system, redis, load } = target;
    await load.stop();
    const connector = await createConnector(system);
    const { server, client, link, accessToken, refreshToken } = await connect(system, connector);
    expect(await isAccepted(link, accessToken)).to.equal(true);
    await redis.command('CONFIG', 'SET', 'maxmemory', 1);
    await fetch(`${system.management}/api/v1/connectors/${connector.id}`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${system.managementKey}` },
    });
    await redis.command('CONFIG', 'SET', 'maxmemory', 0);
    expect(await isAccepted(link, accessToken)).to.equal(false);
    expect((await refresh(server, client, refreshToken)).body.error).to.equal('invalid_grant');
  });
});

async function untilConnectWorks({ system, connector }: SystemUnderLoad): Promise<void> {
  let failure: unknown;
  const works = async () => {
    try {
      await refreshAndCall(await connect(system, connector));
      return true;
    } catch (error) {
      failure = error;
      return false;
    }
  };
  await until('connect, refresh and call to work', works, RECOVERY_SECONDS).catch(
    (cause: unknown) => {
      throw new Error(`${String(cause)}, the last time: ${String(failure)}`);
    },
  );
}

/** Expects that the latest tokens of every client work, and that revoked and unused earlier tokens do not. */
async function expectClientsWork({ history, load }: SystemUnderLoad): Promise<void> {
  for (const { server, client, refreshToken } of load.connections)
    expect((await refresh(server, client, refreshToken)).status).to.equal(200);
  expect(unusedRefreshTokens(history)).to.deep.equal([]);
  advanceClock(REVOKED_EVERYWHERE_SECONDS);
  for (const { link, accessToken } of load.revoked)
    expect(await isAccepted(link, accessToken)).to.equal(false);
}
