// Three processes on Redis with Sentinel: what they promise holds, also while one server takes over from another.
import { expect } from 'chai';
import { until } from '../store/condition.ts';
import { startWatched, type RedisNode, type WatchedRedis } from '../store/redis-groups.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect, type Connection } from '../support/connection.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { unexpectedResponses } from '../support/scale-out/load.ts';
import { type Processes, useProcesses } from '../support/scale-out/processes.ts';
import { SOAK } from '../support/scale-out/soak.ts';
import { postToken } from '../support/token-endpoints.ts';
import { nothingLeaks } from './discretion.ts';
import { racesAreFair } from './races.ts';
import { revocationIsHeard } from './revocation.ts';
import { type Struck, underLoad } from './under-load.ts';
import { flowsAreWhole } from './whole-flows.ts';

const NAME = 'main';
const ROUNDS = SOAK ? 200 : 10;
const HANDOVERS = SOAK ? 20 : 1;
const HEALED_SECONDS = 10;

const refreshOf = ({ server, client, refreshToken }: Connection) =>
  refresh(server, client, refreshToken);

type Revoke = (system: Processes, connector: string, connection: Connection) => Promise<unknown>;
const revokeLink: Revoke = (system, connector) => revokeConnector(system, connector);
const endAtClient: Revoke = (_system, _connector, { server, client, refreshToken }) =>
  postToken(server.revocation_endpoint, client, refreshToken);

const acceptsFailover = ({ sentinel }: WatchedRedis) =>
  sentinel.raw.call('SENTINEL', 'FAILOVER', NAME).then(
    () => true,
    () => false,
  );

const roleOf = async ({ raw }: RedisNode) =>
  /^role:(\w+)/m.exec(await raw.info('replication'))?.[1];

const isInStep = async ({ raw }: RedisNode) =>
  (await raw.info('replication')).includes('master_link_status:up');

/** How far the stream of writes is at a server, in bytes. */
const offset = async ({ raw }: RedisNode) => {
  const [, bytes] =
    /^(?:slave|master)_repl_offset:(\d+)/m.exec(await raw.info('replication')) ?? [];
  return Number(bytes);
};

describe('Three processes on Redis with Sentinel', () => {
  let redis: WatchedRedis;
  let servers: { master: RedisNode; replica: RedisNode };
  const processes = useProcesses(async () => {
    redis = await startWatched(NAME);
    servers = redis;
    return { storeAddress: `redis+sentinel://127.0.0.1:${redis.sentinel.port}/${NAME}` };
  });
  after(() => redis?.stop());

  flowsAreWhole(processes);
  revocationIsHeard(processes);
  racesAreFair(processes, ROUNDS);

  it('answer a revocation when the replica has it', async () => {
    for (const revoke of [endAtClient, revokeLink])
      await until('an answer waits for the replica', async () => {
        const connector = await createConnector(processes());
        const connection = await connect(processes(), connector);
        redis.replica.kill('SIGSTOP');
        let isAnswered = false;
        const revoking = revoke(processes(), connector.id, connection).finally(
          () => (isAnswered = true),
        );
        await until('it is carried out', async () => (await refreshOf(connection)).status === 400);
        const waits = !isAnswered;
        redis.replica.kill('SIGCONT');
        await revoking;
        return waits;
      });
  });

  it('tell nobody anything but to wait while the master hands over to the replica', async () => {
    for (let n = 0; n < HANDOVERS; n += 1) {
      const { noted, healedAfter } = await underLoad(processes(), async () => {
        await until('the handover begins', () => acceptsFailover(redis));
        await until(
          'the master follows',
          async () => (await roleOf(servers.master)) === 'slave',
          20,
        );
      });
      expect(unexpectedResponses(noted)).to.deep.equal([]);
      expect(healedAfter).to.be.below(HEALED_SECONDS);
      servers = { master: servers.replica, replica: servers.master };
      await until('the other follows', async () => isInStep(servers.replica), 20);
    }
  }).timeout(HANDOVERS * 40_000);

  describe('when the master dies under load, with writes that no replica had', () => {
    let struck: Struck;
    let idle: Connection;
    let revoked: Connection;
    let ended: Connection;
    let lost: string | undefined;

    before(async function strike() {
      this.timeout(60_000);
      const [first, second] = [
        await createConnector(processes()),
        await createConnector(processes()),
      ];
      idle = await connect(processes(), first);
      ended = await connect(processes(), first);
      revoked = await connect(processes(), second);
      struck = await underLoad(processes(), async () => {
        await revokeLink(processes(), second.id, revoked);
        await endAtClient(processes(), first.id, ended);
        // The replica no longer follows, and the master dies with what only it was told.
        await servers.replica.raw.call('REPLICAOF', '127.0.0.1', servers.replica.port);
        lost = (await refreshOf(idle)).body.refresh_token;
        expect(await offset(servers.replica)).to.be.below(await offset(servers.master));
        await servers.master.stop();
      });
    });

    it('clients are told nothing but to wait', () => {
      expect(unexpectedResponses(struck.noted)).to.deep.equal([]);
    });
    it('all is well within ten seconds', () => {
      expect(struck.healedAfter).to.be.within(0, HEALED_SECONDS);
    });
    it('a refresh token that only the dead master knew is good', async () => {
      const { status, body } = await refreshOf({ ...idle, refreshToken: lost });
      expect(status).to.equal(200);
      expect(await isAccepted(idle.link, body.access_token)).to.equal(true);
    });
    it('what was revoked stays revoked', async () => {
      for (const [{ link, accessToken }, status] of [
        [revoked, 410],
        [ended, 401],
      ] as const)
        expect((await callTool(link, accessToken, 'club_overview')).status).to.equal(status);
      for (const connection of [revoked, ended])
        expect((await refreshOf(connection)).body.error).to.equal('invalid_grant');
    });
  });

  nothingLeaks(processes);
});
