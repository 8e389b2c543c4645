import { expect } from 'chai';
import { Redis } from 'ioredis';
import { until } from '../support/until.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { statusAt } from '../support/scale-out/direct-call.ts';
import { type Processes, useProcesses } from '../support/scale-out/processes.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { startProxy } from '../store/tcp-proxy.ts';
import { testResponses } from './responses.ts';
import { connectEverywhere, connectMachines, testRevocation } from './revocation.ts';
import { testTokenRaces } from './token-races.ts';
import { testAuthorizations, testBrowsers } from './authorizations.ts';

const CACHE_SECONDS = 10;
const PROCESSES = SOAK ? 3 : 2;

describe(`${PROCESSES} processes on one Redis`, () => {
  // All listen at the public address of the development identity provider, and one succeeds.
  const settings = { GATEHOUSE_DEVELOPMENT_IDP_LISTEN: '' };
  const processes = useProcesses(() => ({ store: 'redis', count: PROCESSES, settings }));

  testAuthorizations(processes);
  testBrowsers(processes);
  testRevocation(processes);
  // The long run has longer races.
  if (!SOAK)
    testTokenRaces(processes, {
      database: 'one Redis',
      exchanges: { rounds: 1, requests: 12 },
      refreshes: [{ rounds: 1, requests: 12 }],
    });
  describe('without notifications', () => testWithoutNotifications(processes));
  if (SOAK) testWithoutStore(processes);
  testResponses(processes);
});

function testWithoutNotifications(processes: () => Processes): void {
  let raw: Redis;
  let frozenAt: number;
  let subscriptions: string[];
  /** The number of subscriptions on each connection that has any. */
  const subscribed = async () =>
    String(await raw.call('CLIENT', 'LIST', 'TYPE', 'pubsub')).match(/ sub=[1-9]\d*/g) ?? [];
  before(async () => {
    raw = new Redis(processes().storeAddress);
    subscriptions = await subscribed();
    frozenAt = Date.now() / 1000;
    await processes().setClocks({ freezeAt: frozenAt });
    await raw.call('ACL', 'SETUSER', 'default', 'resetchannels');
    await raw.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
  });
  after(async () => {
    raw?.disconnect();
    await processes().setClocks('restore');
  });

  it('CNX-02 all processes refuse a revoked link and ended machines within ten seconds without notifications', async () => {
    const { id, statuses } = await connectEverywhere(processes());
    const machines = await connectMachines(processes());
    await revokeConnector(processes(), id);
    for (const machine of machines) await machine.end();
    expect(await statuses()).to.deep.equal(new Set([200]));
    await processes().setClocks({ freezeAt: frozenAt + CACHE_SECONDS });
    expect(await statuses()).to.deep.equal(new Set([410]));
    for (const { what, statuses: ofMachine, refused } of machines)
      expect(await ofMachine(), what).to.deep.equal(refused);
  });

  it('notifications work again after they were interrupted', async () => {
    await raw.call('ACL', 'SETUSER', 'default', 'allchannels');
    await until(
      'every process to subscribe again',
      async () => (await subscribed()).join() === subscriptions.join(),
    );
    const { id, allRefuse } = await connectEverywhere(processes());
    await revokeConnector(processes(), id);
    await allRefuse(410);
  });
}

/** Takes as long as records are cached. */
function testWithoutStore(processes: () => Processes): void {
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
      const seconds = (performance.now() - read) / 1000;
      expect(seconds).to.be.below(60);
      recordSoak({
        what: 'a process that lost the store',
        held: `refused a revoked link after ${seconds.toFixed(0)} s`,
      });
    } finally {
      // Later tests use the other processes only.
      await disconnected.kill();
    }
  }).timeout(120_000);
}
