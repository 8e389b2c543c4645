// Three processes on one Redis: any of them takes any request.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { until } from '../store/condition.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { statusAt, statusesAt } from '../support/scale-out/direct-call.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { SOAK } from '../support/scale-out/soak.ts';
import { startProxy } from '../store/tcp-proxy.ts';
import { nothingLeaks } from './discretion.ts';
import { limitIsExact } from './limit.ts';
import { revocationIsHeard } from './revocation.ts';
import { flowsAreWhole } from './whole-flows.ts';

const READ_AGAIN_SECONDS = 10;

describe('Three processes on one Redis', () => {
  const processes = useProcesses(() => ({ store: 'redis' }));

  flowsAreWhole(processes);
  revocationIsHeard(processes);

  if (SOAK)
    it('CNX-02 refuse after a minute what was revoked, also one that has lost the store', async () => {
      const { port } = new URL(processes().storeAddress);
      const wire = await startProxy(Number(port));
      const cut = await processes().add({ GATEHOUSE_STORE: `redis://127.0.0.1:${wire.port}` });
      try {
        const { id, link } = await createConnector(processes());
        const { accessToken } = await connect(processes(), { link });
        const answer = () => statusAt(cut, link, accessToken);
        expect(await answer()).to.equal(200);
        const read = performance.now();
        await wire.close();
        const revoke = () => revokeConnector(processes(), id);
        // It is told to wait as long as requests go to the one that lost the store.
        await until('it is revoked', () =>
          revoke().then(
            () => true,
            () => false,
          ),
        );
        expect(await answer()).to.equal(200);
        await until('it answers 503', async () => (await answer()) === 503, 60);
        expect(performance.now() - read).to.be.below(60_000);
      } finally {
        // The claims after this one count processes.
        await cut.kill();
      }
    }).timeout(90_000);

  describe('that passes on no messages', () => {
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
      const everywhere = () => statusesAt(processes().running(), link, accessToken);
      expect(await everywhere()).to.deep.equal([200, 200, 200]);
      return { everywhere, revoke: () => revokeConnector(processes(), id) };
    };

    it('CNX-02 a revoked connect link is gone at all of them within ten seconds', async () => {
      const { everywhere, revoke } = await connected();
      const read = performance.now();
      await revoke();
      expect(await everywhere()).to.deep.equal([200, 200, 200]);
      await until(
        'every process answers 410',
        async () => (await everywhere()).every((status) => status === 410),
        READ_AGAIN_SECONDS + 5,
      );
      expect(performance.now() - read).to.be.below((READ_AGAIN_SECONDS + 1) * 1000);
    });

    it('messages are heard again when it does', async () => {
      await raw.call('ACL', 'SETUSER', 'default', 'allchannels');
      await until('a revocation is heard by all', async () => {
        const { everywhere, revoke } = await connected();
        await revoke();
        return (await everywhere()).every((status) => status === 410);
      });
    });
  });

  nothingLeaks(processes);

  describe('that come and go', () => limitIsExact(processes));
});
