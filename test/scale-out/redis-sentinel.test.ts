import { expect } from 'chai';
import { STORE_TIMEOUTS } from '../../src/store/timeout.ts';
import { until } from '../support/until.ts';
import {
  expectLoss,
  failOver,
  startSentinel,
  type RedisNode,
  type SentinelRedis,
} from '../store/redis-topologies.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect, type Connection } from '../support/connection.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { unexpectedResponses } from '../support/scale-out/load.ts';
import { SECRET, useProcesses } from '../support/scale-out/processes.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { startSystem, type System } from '../support/system.ts';
import { postToken } from '../support/token-endpoints.ts';
import { testResponses } from './responses.ts';
import { testTokenRaces } from './token-races.ts';
import { testRevocation } from './revocation.ts';
import { type LoadResult, underLoad } from './under-load.ts';
import { testAuthorizations } from './authorizations.ts';

const NAME = 'main';
const FAILOVERS = 20;
const RECOVERY_SECONDS = 10;
/** A response that does not wait for the replica arrives before those of as many later requests. */
const REQUESTS_MEANWHILE = 3;

const refreshOf = ({ server, client, refreshToken }: Connection) =>
  refresh(server, client, refreshToken);

type Revoke = (system: System, connector: string, connection: Connection) => Promise<unknown>;
const revokeLink: Revoke = (system, connector) => revokeConnector(system, connector);
const revokeRefreshToken: Revoke = (_system, _connector, { server, client, refreshToken }) =>
  postToken(server.revocation_endpoint, client, refreshToken);

const roleOf = async ({ raw }: RedisNode) =>
  /^role:(\w+)/m.exec(await raw.info('replication'))?.[1];

const isInStep = async ({ raw }: RedisNode) =>
  (await raw.info('replication')).includes('master_link_status:up');

/** The replication offset of a server in bytes. */
const offset = async ({ raw }: RedisNode) => {
  const [, bytes] =
    /^(?:slave|master)_repl_offset:(\d+)/m.exec(await raw.info('replication')) ?? [];
  return Number(bytes);
};

describe('Several instances on Redis with Sentinel', () => {
  let redis: SentinelRedis;
  let servers: { master: RedisNode; replica: RedisNode };
  const processes = useProcesses(async () => {
    redis = await startSentinel(NAME);
    servers = redis;
    const storeAddress = `redis+sentinel://127.0.0.1:${redis.sentinel.port}/${NAME}`;
    return { storeAddress, count: SOAK ? 3 : 2, keepsStoreTimeouts: true, inThisProcess: true };
  });
  after(() => redis?.stop());

  testAuthorizations(processes);
  testRevocation(processes);
  testTokenRaces(processes, {
    database: 'Redis with Sentinel',
    exchanges: { rounds: 1, requests: 12 },
    refreshes: [{ rounds: 1, requests: SOAK ? 50 : 8 }],
  });

  describe('while the replica is frozen', () => {
    let patient: System;
    const { replication } = STORE_TIMEOUTS;
    before(async () => {
      STORE_TIMEOUTS.replication = 30_000;
      const { storeAddress } = processes();
      patient = await startSystem({ storeAddress, settings: { GATEHOUSE_SECRET: SECRET } });
    });
    after(async () => {
      STORE_TIMEOUTS.replication = replication;
      await patient?.stop();
    });

    for (const [what, revoke] of [
      ['grant', revokeRefreshToken],
      ['connect link', revokeLink],
    ] as const)
      it(`the revocation of a ${what} gets its response only after the replica has the write`, async () => {
        const connector = await createConnector(patient);
        const connection = await connect(patient, connector);
        redis.replica.kill('SIGSTOP');
        try {
          let isAnswered = false;
          const revoking = revoke(patient, connector.id, connection).finally(
            () => (isAnswered = true),
          );
          await until(
            'the revocation to take effect',
            async () => (await refreshOf(connection)).status === 400,
          );
          for (let n = 0; n < REQUESTS_MEANWHILE; n += 1) await refreshOf(connection);
          expect(isAnswered).to.equal(false);
          redis.replica.kill('SIGCONT');
          await revoking;
        } finally {
          redis.replica.kill('SIGCONT');
        }
      });
  });

  // The test of the store shows a failover.
  if (SOAK)
    it('requests get at most 503 for ten seconds during a failover', async () => {
      for (let n = 0; n < FAILOVERS; n += 1) {
        const { responses, recoveredAfter } = await underLoad(processes(), async () => {
          await failOver(redis.sentinel, NAME, servers.replica);
          await until(
            'the old master to replicate',
            async () => (await roleOf(servers.master)) === 'slave',
          );
        });
        expect(unexpectedResponses(responses)).to.deep.equal([]);
        expect(recoveredAfter).to.be.below(RECOVERY_SECONDS);
        servers = { master: servers.replica, replica: servers.master };
        await until('the new replica to replicate', async () => isInStep(servers.replica));
      }
      const held = `requests succeeded within ${RECOVERY_SECONDS} s each time`;
      recordSoak({ what: `${FAILOVERS} failovers by Sentinel under load`, held });
    }).timeout(FAILOVERS * 40_000);

  describe('when the master dies under load with unreplicated writes', () => {
    let result: LoadResult;
    let idle: Connection;
    let revoked: Connection;
    let ended: Connection;
    let lost: string | undefined;

    before(async function killMaster() {
      this.timeout(180_000);
      const [first, second] = [
        await createConnector(processes()),
        await createConnector(processes()),
      ];
      idle = await connect(processes(), first);
      ended = await connect(processes(), first);
      revoked = await connect(processes(), second);
      result = await underLoad(processes(), async () => {
        await revokeLink(processes(), second.id, revoked);
        await revokeRefreshToken(processes(), first.id, ended);
        // The replica stops replicating, and the master dies with writes that only it has.
        await servers.replica.raw.call('REPLICAOF', '127.0.0.1', servers.replica.port);
        lost = (await refreshOf(idle)).body.refresh_token;
        expect(await offset(servers.replica)).to.be.below(await offset(servers.master));
        // Not before, because Sentinel would notice a busy machine, and repair the replica.
        await expectLoss(redis, NAME);
        await servers.master.stop();
      });
    });

    it('clients get 503 at most when the master dies', () => {
      expect(unexpectedResponses(result.responses)).to.deep.equal([]);
    });
    it(`requests succeed ${SOAK ? 'within ten seconds' : 'again'} after the master died`, () => {
      expect(result.responses.at(-1)).to.have.property('status', 200);
      if (!SOAK) return;
      expect(result.recoveredAfter).to.be.within(0, RECOVERY_SECONDS);
      const held = `requests succeeded after ${result.recoveredAfter.toFixed(1)} s`;
      recordSoak({ what: 'the death of a master that Sentinel watches', held });
    });
    it('a refresh token that only the dead master stored works', async () => {
      const { status, body } = await refreshOf({ ...idle, refreshToken: lost });
      expect(status).to.equal(200);
      expect(await isAccepted(idle.link, body.access_token)).to.equal(true);
    });
    it('replicated revocations survive the death of the master', async () => {
      for (const [{ link, accessToken }, status] of [
        [revoked, 410],
        [ended, 401],
      ] as const)
        expect((await callTool(link, accessToken, 'club_overview')).status).to.equal(status);
      for (const connection of [revoked, ended])
        expect((await refreshOf(connection)).body.error).to.equal('invalid_grant');
    });
  });

  testResponses(processes);
});
