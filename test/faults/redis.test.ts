// Whatever happens to the one Redis server: clients are told to wait, nobody is signed out, and everything works again by itself.
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
import { SOAK } from '../support/scale-out/soak.ts';
import { until } from '../store/condition.ts';

type Fault = {
  what: string;
  begin: (scene: SystemUnderLoad) => unknown;
  heal: (scene: SystemUnderLoad) => unknown;
  /** What can still be answered; not said where it differs from one moment to the next. */
  works?: Parameters<typeof statusesWhen>[0];
  /** How often clients at work refresh and call meanwhile, at least. */
  rounds?: number;
  /** Milliseconds in which everything is answered. */
  deadline?: number;
};

const HEALS_WITHIN = 10;
const TIMES = SOAK ? 20 : 1;
const ROUND_MS = 4000;
/** In seconds. */
const CALLS_GO_ON = 45;
const REVOKED_EVERYWHERE = 61;

const FAULTS: Fault[] = [
  {
    what: 'stopped, and started again',
    begin: ({ redis }) => redis.stop('SIGTERM'),
    heal: ({ redis }) => redis.start(),
    works: [],
  },
  {
    what: 'killed, and started again',
    begin: ({ redis }) => redis.stop('SIGKILL'),
    heal: ({ redis }) => redis.start(),
    works: [],
  },
  {
    what: 'frozen',
    begin: ({ redis }) => redis.signal('SIGSTOP'),
    heal: ({ redis }) => redis.signal('SIGCONT'),
    works: [],
  },
  {
    what: 'out of reach',
    begin: ({ proxy }) => proxy.disconnect(),
    heal: ({ proxy }) => proxy.allowConnections(),
    works: [],
  },
  {
    what: 'silent, on connections that stay open',
    begin: ({ proxy }) => proxy.setRule(() => 'drop'),
    heal: ({ proxy }) => proxy.setRule(),
    works: [],
  },
  {
    what: 'full',
    begin: ({ redis }) => redis.command('CONFIG', 'SET', 'maxmemory', 1),
    heal: ({ redis }) => redis.command('CONFIG', 'SET', 'maxmemory', 0),
    works: ['reads', 'removes'],
  },
  {
    what: 'without the replicas that it must have for a write',
    begin: ({ redis }) => redis.command('CONFIG', 'SET', 'min-replicas-to-write', 1),
    heal: ({ redis }) => redis.command('CONFIG', 'SET', 'min-replicas-to-write', 0),
    works: ['reads'],
  },
  {
    // The connection is made anew after every write that is refused, in the hope of a master.
    what: 'a replica, as after a failover',
    begin: ({ redis }) => redis.command('REPLICAOF', '127.0.0.1', 1),
    heal: ({ redis }) => redis.command('REPLICAOF', 'NO', 'ONE'),
  },
  {
    what: 'cut off in one command of ten',
    begin: ({ proxy }) => proxy.setRule(cutOneIn(10)),
    heal: ({ proxy }) => proxy.setRule(),
    rounds: 20,
  },
  {
    what: 'cut off in one command of five',
    begin: ({ proxy }) => proxy.setRule(cutOneIn(5)),
    heal: ({ proxy }) => proxy.setRule(),
    rounds: 20,
  },
  {
    what: 'slow',
    begin: ({ proxy }) => proxy.delayReplies(200),
    heal: ({ proxy }) => proxy.delayReplies(0),
    // Nothing fails, and a page needs a dozen commands.
    deadline: 3000,
  },
];

/** By turns in the middle of the command, and after it ran. */
function cutOneIn(every: number) {
  let commands = 0;
  return ({ kind }: { kind: string }): Action => {
    if (!kind || ++commands % every !== 0) return 'pass';
    return commands % (2 * every) === 0 ? 'cut' : 'cut reply';
  };
}

describe('While Redis is', () => {
  let scene: SystemUnderLoad;
  beforeEach(async () => {
    scene = await startSystemUnderLoad();
  });
  afterEach(async () => {
    restoreClock();
    await scene?.close();
  });

  for (const { what, begin, heal, works, rounds = 1, deadline } of FAULTS)
    it(`${what}: clients wait, nobody is signed out, and all is well again`, async () => {
      const { system, connector, load } = scene;
      const requests = await prepareEveryRequest(system, connector);
      await begin(scene);
      await load.rounds(rounds * TIMES);
      if (works) expect(await requests.send()).to.deep.equal(statusesWhen(works));
      await heal(scene);
      await untilFlowWorks(scene);
      if (works) expect(await requests.finish()).to.deep.equal([200, 200]);
      await load.rounds(1);
      await load.stop();
      await everybodyGoesOn(scene);
      expect(violations(scene.history, deadline ? { maxMs: deadline } : {})).to.deep.equal([]);
    }).timeout(40_000 + rounds * TIMES * ROUND_MS);

  it(`out of reach for longer: calls go on for ${CALLS_GO_ON} s and wait then, without being sent to sign in`, async () => {
    const { system, proxy, connector, load } = scene;
    await load.stop();
    const { accessToken } = await connect(system, connector);
    const call = () => callTool(connector.link, accessToken, 'club_overview');
    expect((await call()).status).to.equal(200);
    proxy.disconnect();
    advanceClock(CALLS_GO_ON - 5);
    expect((await call()).status).to.equal(200);
    advanceClock(6);
    expect((await call()).status).to.equal(503);
    proxy.allowConnections();
    await until('calls work', async () => (await call()).status === 200, HEALS_WITHIN);
    expect(violations(scene.history)).to.deep.equal([]);
  });

  it('full: an administrator can still stop a connect link', async () => {
    const { system, redis, load } = scene;
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

async function untilFlowWorks({ system, connector }: SystemUnderLoad): Promise<void> {
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
  await until('a full flow works', works, HEALS_WITHIN).catch((cause: unknown) => {
    throw new Error(`${String(cause)}, the last time: ${String(failure)}`);
  });
}

/** With the last tokens each was given. Whoever revoked theirs, and whatever token nobody ever used, is out. */
async function everybodyGoesOn({ history, load }: SystemUnderLoad): Promise<void> {
  for (const { server, client, refreshToken } of load.connections)
    expect((await refresh(server, client, refreshToken)).status).to.equal(200);
  expect(unusedRefreshTokens(history)).to.deep.equal([]);
  advanceClock(REVOKED_EVERYWHERE);
  for (const { link, accessToken } of load.revoked)
    expect(await isAccepted(link, accessToken)).to.equal(false);
}
