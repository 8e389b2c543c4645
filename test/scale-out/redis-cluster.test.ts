import { expect } from 'chai';
import { until } from '../support/until.ts';
import {
  type RedisCluster,
  type RedisNode,
  failOverSoon,
  startCluster,
} from '../store/redis-topologies.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { callTool } from '../support/mcp.ts';
import { moveSlot, slotsOf } from '../support/scale-out/cluster-slots.ts';
import { unexpectedResponses } from '../support/scale-out/load.ts';
import { type Processes, useProcesses } from '../support/scale-out/processes.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { testResponses } from './responses.ts';
import { testTokenRaces } from './token-races.ts';
import { testRevocation } from './revocation.ts';
import { underLoad } from './under-load.ts';
import { testAuthorizations } from './authorizations.ts';

const MOVES = SOAK ? 10 : 1;
const KINDS = ['grant', 'connector', 'client'];
const RECOVERY_SECONDS = 10;

const isMaster = async ({ raw }: RedisNode) =>
  (await raw.info('replication')).includes('role:master');

const isInStep = async ({ raw }: RedisNode) =>
  (await raw.info('replication')).includes('master_link_status:up');

/** Moves every slot in use to the next master. */
async function moveSlots(masters: readonly RedisNode[]): Promise<void> {
  const inUse = await Promise.all(
    masters.map((from) => Promise.all(KINDS.map((kind) => slotsOf(from, kind)))),
  );
  for (const [i, from] of masters.entries()) {
    const to = masters[(i + 1) % masters.length];
    if (!to) throw new Error('there is no other master');
    for (const slot of new Set(inUse[i]?.flat())) await moveSlot(slot, [from, to], masters);
  }
}

describe('Several instances on a Redis Cluster', () => {
  let cluster: RedisCluster;
  const processes = useProcesses(async () => {
    cluster = await startCluster();
    const nodes = cluster.masters.map(({ port }) => `127.0.0.1:${port}`);
    const storeAddress = `redis+cluster://${nodes.join(',')}`;
    return { storeAddress, count: SOAK ? 3 : 2, keepsStoreTimeouts: SOAK, inThisProcess: true };
  });
  after(() => cluster?.stop());

  testAuthorizations(processes);
  testRevocation(processes);
  testTokenRaces(processes, {
    database: 'Redis Cluster',
    exchanges: { rounds: 1, requests: 12 },
    refreshes: [{ rounds: 1, requests: SOAK ? 50 : 8 }],
  });

  it('every request succeeds while slots move to other masters', async () => {
    for (let n = 0; n < MOVES; n += 1) {
      const { responses } = await underLoad(processes(), () => moveSlots(cluster.masters));
      expect(responses.filter(({ status }) => status !== 200)).to.deep.equal([]);
    }
    const what = `${MOVES} moves of all slots in use to other masters under load`;
    recordSoak({ what, held: 'every request succeeded' });
  }).timeout(MOVES * 60_000);

  // The test of the store shows a failover on a Cluster.
  if (SOAK) testFailovers(processes, () => cluster);

  testResponses(processes);
});

function testFailovers(processes: () => Processes, running: () => RedisCluster): void {
  it('requests get at most 503 for ten seconds during a manual failover', async () => {
    const { replica, masters } = running();
    const { responses, recoveredAfter } = await underLoad(processes(), async () => {
      await replica.raw.call('CLUSTER', 'FAILOVER');
      await until('the replica to become master', () => isMaster(replica));
    });
    expect(unexpectedResponses(responses)).to.deep.equal([]);
    expect(recoveredAfter).to.be.below(RECOVERY_SECONDS);
    const [first] = masters;
    await until('the old master to replicate', async () => first && isInStep(first));
    const held = `requests succeeded after ${recoveredAfter.toFixed(1)} s`;
    recordSoak({ what: 'a manual failover of a Redis Cluster', held });
  }).timeout(120_000);

  it('requests get at most 503 for ten seconds when a master dies', async () => {
    const { id, link } = await createConnector(processes());
    const { accessToken } = await connect(processes(), { link });
    await failOverSoon(running());
    const { responses, recoveredAfter } = await underLoad(processes(), async () => {
      await revokeConnector(processes(), id);
      await running().replica.stop();
    });
    expect(unexpectedResponses(responses)).to.deep.equal([]);
    expect(recoveredAfter).to.be.within(0, RECOVERY_SECONDS);
    expect((await callTool(link, accessToken, 'club_overview')).status).to.equal(410);
    const held = `requests succeeded after ${recoveredAfter.toFixed(1)} s, and a revocation holds`;
    recordSoak({ what: 'the death of a master of a Redis Cluster', held });
  }).timeout(120_000);
}
