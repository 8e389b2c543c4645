// Three processes on one Redis: any of them takes any request.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { until } from '../store/condition.ts';
import { createConnector, readAudit, revokeConnector } from '../support/administrator.ts';
import { connect } from '../support/connection.ts';
import { statusesAt } from '../support/scale-out/direct-call.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { racesAreFair } from './races.ts';
import { revocationIsHeard } from './revocation.ts';
import { flowsAreWhole } from './whole-flows.ts';

const ROUNDS = 200;
const READ_AGAIN_SECONDS = 10;

describe('Three processes on one Redis', () => {
  const processes = useProcesses(() => ({ store: 'redis' }));

  flowsAreWhole(processes);
  revocationIsHeard(processes);
  racesAreFair(processes, ROUNDS);

  it('take no refresh of all these for theft', async () => {
    const events = (await readAudit(processes())).map(({ event }) => event);
    expect(events).to.include('connector_revoked');
    expect(events.filter((event) => event === 'refresh_replay')).to.deep.equal([]);
  });

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

    it('a revoked connect link is gone at all of them within ten seconds', async () => {
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
});
