import { expect } from 'chai';
import { until } from '../support/until.ts';
import { type RedisCluster, type RedisNode, startCluster } from '../store/redis-topologies.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { callTool } from '../support/mcp.ts';
import { moveSlot, slotsOf } from '../support/scale-out/cluster-slots.ts';
import { unexpectedResponses } from '../support/scale-out/load.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { SOAK } from '../support/soak.ts';
import { testResponses } from './responses.ts';
import { testTokenRaces } from './token-races.ts';
import { testRevocation } from './revocation.ts';
import { underLoad } from './under-load.ts';
import { testAuthorizations } from './authorizations.ts';

const ROUNDS = SOAK ? 200 : 10;
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

describe('Three processes on a Redis Cluster', () => {
  let cluster: RedisCluster;
  const processes = useProcesses(async () => {
    cluster = await startCluster();
    const nodes = cluster.masters.map(({ port }) => `127.0.0.1:${port}`);
    return { storeAddress: `redis+cluster://${nodes.join(',')}` };
  });
  after(() => cluster?.stop());

  testAuthorizations(processes);
  testRevocation(processes);
  testTokenRaces(processes, ROUNDS);

  it('every request succeeds while slots move to other masters', async () => {
    for (let n = 0; n < MOVES; n += 1) {
      const { responses } = await underLoad(processes(), () => moveSlots(cluster.masters));
      expect(responses.filter(({ status }) => status !== 200)).to.deep.equal([]);
    }
  }).timeout(MOVES * 60_000);

  it('requests get at most 503 for ten seconds during a manual failover', async () => {
    const { responses, recoveredAfter } = await underLoad(processes(), async () => {
      await cluster.replica.raw.call('CLUSTER', 'FAILOVER');
      await until('the replica to become master', () => isMaster(cluster.replica), 20);
    });
    expect(unexpectedResponses(responses)).to.deep.equal([]);
    expect(recoveredAfter).to.be.below(RECOVERY_SECONDS);
    const [first] = cluster.masters;
    await until('the old master to replicate', async () => first && isInStep(first), 20);
  }).timeout(60_000);

  it('requests get at most 503 for ten seconds when a master dies', async () => {
    const { id, link } = await createConnector(processes());
    const { accessToken } = await connect(processes(), { link });
    const { responses, recoveredAfter } = await underLoad(processes(), async () => {
      await revokeConnector(processes(), id);
      await cluster.replica.stop();
    });
    expect(unexpectedResponses(responses)).to.deep.equal([]);
    expect(recoveredAfter).to.be.within(0, RECOVERY_SECONDS);
    expect((await callTool(link, accessToken, 'club_overview')).status).to.equal(410);
  }).timeout(60_000);

  testResponses(processes);
});
