import { assert, expect } from 'chai';
import { Redis } from 'ioredis';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

const MAX_WAIT_MS = 300;
const options = { secret: 'a root secret for the tests of the store', dataDir: '/nowhere' };

describe('The store on Redis with a replica', () => {
  let master: RedisServer;
  let replica: RedisServer;
  let raw: Redis;
  let store: Store;

  before(async () => {
    master = await startRedis();
    replica = await startRedis({ args: ['--replicaof', `127.0.0.1 ${master.port}`] });
    raw = new Redis(replica.url);
    raw.on('error', () => undefined);
    store = await openStore({ kind: 'redis', url: master.url }, options);
    await until('the replica to be in sync', async () =>
      (await raw.info('replication')).includes('master_link_status:up'),
    );
  });
  after(async () => {
    await store?.close();
    raw?.disconnect();
    await replica?.stop();
    await master?.stop();
  });

  /** Calls `replicated`. `done` resolves with its duration in milliseconds. */
  const startWaiting = (key: string) => {
    const started = performance.now();
    const waiting = { isDone: false, done: Promise.resolve(0) };
    waiting.done = store.replicated(key).then(() => {
      waiting.isDone = true;
      return performance.now() - started;
    });
    return waiting;
  };

  const whileStopped = async <R>(work: () => Promise<R>): Promise<R> => {
    replica.kill('SIGSTOP');
    try {
      return await work();
    } finally {
      replica.kill('SIGCONT');
    }
  };

  it('replicated waits until the replica has what was written', async () => {
    await until('an acknowledged wait', async () => {
      const waiting = await whileStopped(async () => {
        await store.set('kept:1', 'kept', 60);
        const started = startWaiting('kept:1');
        await store.get('kept:1');
        return started;
      });
      assert.isFalse(waiting.isDone);
      const inTime = (await waiting.done) < MAX_WAIT_MS;
      // A stopped replica may lose its connection, and then replicated does not wait for it.
      if (!(await raw.info('replication')).includes('master_link_status:up')) return false;
      if (inTime) {
        const isThere = async () => (await raw.keys('kept:*')).length === 1;
        await until('the replica to have the key', isThere, 1);
      }
      return inTime;
    });
  });

  it('replicated resolves after 0.3 s without an acknowledgement and does not delay other commands', () =>
    whileStopped(async () => {
      await store.set('late:1', 1, 60);
      // A busy machine may pause for longer than the wait, so this is retried.
      await until('other commands to finish during the wait', async () => {
        const waiting = Array.from({ length: 50 }, () => startWaiting('late:1'));
        for (let i = 0; i < 10; i++) await store.set(`other:${i}`, i, 60);
        const answered = waiting.every(({ isDone }) => !isDone);
        const times = await Promise.all(waiting.map(({ done }) => done));
        for (const time of times) expect(time).to.be.above(MAX_WAIT_MS - 10);
        return answered && times.every((time) => time < 900);
      });
    }));

  it('replicated does not wait for a replica that has disconnected', async () => {
    await replica.stop();
    await until('a wait to end at once', async () => {
      await store.set('alone:1', 1, 60);
      return (await startWaiting('alone:1').done) < MAX_WAIT_MS / 2;
    });
  });
});
