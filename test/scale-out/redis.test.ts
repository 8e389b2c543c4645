import { expect } from 'chai';
import { Redis } from 'ioredis';
import { until } from '../support/until.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { statusAt, statusesAt } from '../support/scale-out/direct-call.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { SOAK } from '../support/soak.ts';
import { startProxy } from '../store/tcp-proxy.ts';
import { testResponses } from './responses.ts';
import { testUseLimits } from './use-limits.ts';
import { testRevocation } from './revocation.ts';
import { testAuthorizations } from './authorizations.ts';

const CACHE_SECONDS = 10;

describe('Three processes on one Redis', () => {
  const processes = useProcesses(() => ({ store: 'redis' }));

  testAuthorizations(processes);
  testRevocation(processes);

  if (SOAK)
    it('CNX-02 a process that lost the store refuses a revoked link within a minute', async () => {
      const { port } = new URL(processes().storeAddress);
      const proxy = await startProxy(Number(port));
      const disconnected = await processes().add({
        GATEHOUSE_STORE: `redis://127.0.0.1:${proxy.port}`,
      });
      try {
        const { id, link } = await createConnector(processes());
        const { accessToken } = await connect(processes(), { link });
        const answer = () => statusAt(disconnected, link, accessToken);
        expect(await answer()).to.equal(200);
        const read = performance.now();
        await proxy.close();
        const revoke = () => revokeConnector(processes(), id);
        // The revocation gets 503 while the balancer sends it to the disconnected process.
        await until('the revocation to succeed', () =>
          revoke().then(
            () => true,
            () => false,
          ),
        );
        expect(await answer()).to.equal(200);
        await until(
          'the disconnected process to return 503',
          async () => (await answer()) === 503,
          60,
        );
        expect(performance.now() - read).to.be.below(60_000);
      } finally {
        // Later tests expect three processes.
        await disconnected.kill();
      }
    }).timeout(90_000);

  describe('without notifications', () => {
    let raw: Redis;
    before(async () => {
      raw = new Redis(processes().storeAddress);
      await raw.call('ACL', 'SETUSER', 'default', 'resetchannels');
      await raw.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    });
    after(() => raw?.disconnect());

    const connected = async () => {
      const { id, link } = await createConnector(processes());
      const { accessToken } = await connect(processes(), { link });
      const allStatuses = () => statusesAt(processes().running(), link, accessToken);
      expect(await allStatuses()).to.deep.equal([200, 200, 200]);
      return { allStatuses, revoke: () => revokeConnector(processes(), id) };
    };

    it('CNX-02 all processes refuse a revoked link within ten seconds without notifications', async () => {
      const { allStatuses, revoke } = await connected();
      const read = performance.now();
      await revoke();
      expect(await allStatuses()).to.deep.equal([200, 200, 200]);
      await until(
        'every process to return 410',
        async () => (await allStatuses()).every((status) => status === 410),
        CACHE_SECONDS + 5,
      );
      expect(performance.now() - read).to.be.below((CACHE_SECONDS + 1) * 1000);
    });

    it('notifications work again after they were interrupted', async () => {
      await raw.call('ACL', 'SETUSER', 'default', 'allchannels');
      await until('every process to receive a revocation', async () => {
        const { allStatuses, revoke } = await connected();
        await revoke();
        return (await allStatuses()).every((status) => status === 410);
      });
    });
  });

  testResponses(processes);

  describe('with restarts', () => testUseLimits(processes));
});
