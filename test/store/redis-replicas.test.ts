import { assert, expect } from 'chai';
import { Redis } from 'ioredis';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { until } from './condition.ts';

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
    await until('the replica is in step', async () =>
      (await raw.info('replication')).includes('master_link_status:up'),
    );
  });
  after(async () => {
    await store?.close();
    raw?.disconnect();
    await replica?.stop();
    await master?.stop();
  });

  /** How long it took in milliseconds, and whether it has finished. */
  const startWaiting = (key: string) => {
    const started = performance.now();
    const waiting = { isOver: false, over: Promise.resolve(0) };
    waiting.over = store.replicated(key).then(() => {
      waiting.isOver = true;
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
    await until('a wait ends before its time', async () => {
      const waiting = await whileStopped(async () => {
        await store.set('kept:1', 'kept', 60);
        const started = startWaiting('kept:1');
        await store.get('kept:1');
        return started;
      });
      assert.isFalse(waiting.isOver);
      const inTime = (await waiting.over) < MAX_WAIT_MS;
      // A replica that was stopped may lose its connection, and then there is none to wait for.
      if (!(await raw.info('replication')).includes('master_link_status:up')) return false;
      if (inTime) {
        const isThere = async () => (await raw.keys('kept:*')).length === 1;
        await until('the replica shows what it acknowledged', isThere, 1);
      }
      return inTime;
    });
  });

  it('replicated resolves after 0.3 s without an acknowledgement and does not delay other commands', () =>
    whileStopped(async () => {
      await store.set('late:1', 1, 60);
      // A busy machine may stand still for longer than the wait; then it is tried again.
      await until('other commands are answered while it waits', async () => {
        const waiting = Array.from({ length: 50 }, () => startWaiting('late:1'));
        for (let i = 0; i < 10; i++) await store.set(`other:${i}`, i, 60);
        const answered = waiting.every(({ isOver }) => !isOver);
        const times = await Promise.all(waiting.map(({ over }) => over));
        for (const time of times) expect(time).to.be.above(MAX_WAIT_MS - 10);
        return answered && times.every((time) => time < 900);
      });
    }));

  it('replicated does not wait for a replica that has disconnected', async () => {
    await replica.stop();
    await until('a wait is over at once', async () => {
      await store.set('alone:1', 1, 60);
      return (await startWaiting('alone:1').over) < MAX_WAIT_MS / 2;
    });
  });
});
