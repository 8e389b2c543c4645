// Three processes on a Redis Cluster: what they promise holds, also while slots move and while a replica takes over.
import { expect } from 'chai';
import { until } from '../store/condition.ts';
import { type RedisCluster, type RedisNode, startCluster } from '../store/redis-groups.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { callTool } from '../support/mcp.ts';
import { moveSlot, slotsOf } from '../support/scale-out/cluster-slots.ts';
import { unexpectedResponses } from '../support/scale-out/load.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { SOAK } from '../support/scale-out/soak.ts';
import { nothingLeaks } from './discretion.ts';
import { racesAreFair } from './races.ts';
import { revocationIsHeard } from './revocation.ts';
import { underLoad } from './under-load.ts';
import { flowsAreWhole } from './whole-flows.ts';

const ROUNDS = SOAK ? 200 : 10;
const MOVES = SOAK ? 10 : 1;
const KINDS = ['grant', 'connector', 'client'];
const HEALED_SECONDS = 10;

const isMaster = async ({ raw }: RedisNode) =>
  (await raw.info('replication')).includes('role:master');

const isInStep = async ({ raw }: RedisNode) =>
  (await raw.info('replication')).includes('master_link_status:up');

/** Every slot in use goes to the master after its own. */
async function moveAll(masters: readonly RedisNode[]): Promise<void> {
  const inUse = await Promise.all(
    masters.map((from) => Promise.all(KINDS.map((kind) => slotsOf(from, kind)))),
  );
  for (const [i, from] of masters.entries()) {
    const to = masters[(i + 1) % masters.length];
    if (!to) throw new Error('there is no other master');
    for (const slot of new Set(inUse[i]?.flat())) await moveSlot(slot, [from, to], masters);
  }
}

describe('Three processes on a Redis Cluster', () => {
  let cluster: RedisCluster;
  const processes = useProcesses(async () => {
    cluster = await startCluster();
    const nodes = cluster.masters.map(({ port }) => `127.0.0.1:${port}`);
    return { storeAddress: `redis+cluster://${nodes.join(',')}` };
  });
  after(() => cluster?.stop());

  flowsAreWhole(processes);
  revocationIsHeard(processes);
  racesAreFair(processes, ROUNDS);

  it('fail nobody while everything they work with moves to other masters', async () => {
    for (let n = 0; n < MOVES; n += 1) {
      const { noted } = await underLoad(processes(), () => moveAll(cluster.masters));
      expect(noted.filter(({ status }) => status !== 200)).to.deep.equal([]);
    }
  }).timeout(MOVES * 60_000);

  it('fail nobody for long when a master hands over to its replica', async () => {
    const { noted, healedAfter } = await underLoad(processes(), async () => {
      await cluster.replica.raw.call('CLUSTER', 'FAILOVER');
      await until('the replica is the master', () => isMaster(cluster.replica), 20);
    });
    expect(unexpectedResponses(noted)).to.deep.equal([]);
    expect(healedAfter).to.be.below(HEALED_SECONDS);
    const [first] = cluster.masters;
    await until('the master follows', async () => first && isInStep(first), 20);
  }).timeout(60_000);

  it('tell nobody anything but to wait, for less than ten seconds, when a master dies', async () => {
    const { id, link } = await createConnector(processes());
    const { accessToken } = await connect(processes(), { link });
    const { noted, healedAfter } = await underLoad(processes(), async () => {
      await revokeConnector(processes(), id);
      await cluster.replica.stop();
    });
    expect(unexpectedResponses(noted)).to.deep.equal([]);
    expect(healedAfter).to.be.within(0, HEALED_SECONDS);
    expect((await callTool(link, accessToken, 'club_overview')).status).to.equal(410);
  }).timeout(60_000);

  nothingLeaks(processes);
});
