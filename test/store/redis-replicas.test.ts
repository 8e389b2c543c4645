import { assert, expect } from 'chai';
import { Redis } from 'ioredis';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { until } from '../support/until.ts';
import { untilInSync } from './redis-topologies.ts';

const WAIT_MS = 300;
/** Longer than any test may take. */
const PATIENCE_MS = 600_000;
const options = { secret: 'a root secret for the tests of the store', dataDir: '/nowhere' };

describe('The store on Redis with a replica', () => {
  let master: RedisServer;
  let replica: RedisServer;
  let raw: Redis;
  let store: Store;
  /** Waits until a replica acknowledges. */
  let patient: Store;

  before(async () => {
    master = await startRedis();
    replica = await startRedis({ args: ['--replicaof', `127.0.0.1 ${master.port}`] });
    raw = new Redis(replica.url);
    raw.on('error', () => undefined);
    const address = { kind: 'redis', url: master.url } as const;
    store = await openStore(address, options);
    patient = await openStore(address, { ...options, timeouts: { replication: PATIENCE_MS } });
    const rawMaster = new Redis(master.url);
    await untilInSync(rawMaster, raw);
    rawMaster.disconnect();
  });
  after(async () => {
    await store?.close();
    await patient?.close();
    raw?.disconnect();
    await replica?.stop();
    await master?.stop();
  });

  /** Calls `replicated`. */
  const startWaiting = (key: string, on = store) => {
    const waiting = { isDone: false, done: Promise.resolve() };
    waiting.done = on.replicated(key).then(() => void (waiting.isDone = true));
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
    await until('a wait', async () => {
      const waiting = await whileStopped(async () => {
        await patient.set('kept:1', 'kept', 60);
        const started = startWaiting('kept:1', patient);
        await patient.get('kept:1');
        return started;
      });
      await waiting.done;
      // A stopped replica may lose its connection, and then replicated does not wait for it.
      if (!(await raw.info('replication')).includes('master_link_status:up')) return false;
      assert.lengthOf(await raw.keys('kept:*'), 1);
      return true;
    });
  });

  it('replicated resolves after 0.3 s without an acknowledgement', () =>
    whileStopped(async () => {
      await store.set('late:1', 1, 60);
      const started = performance.now();
      await store.replicated('late:1');
      expect(performance.now() - started).to.be.above(WAIT_MS - 10);
    }));

  it('replicated does not delay other commands', async () => {
    const waiting = await whileStopped(async () => {
      await patient.set('late:2', 1, 60);
      const started = Array.from({ length: 50 }, () => startWaiting('late:2', patient));
      for (let i = 0; i < 10; i++) await patient.set(`other:${i}`, i, 60);
      expect(started.filter(({ isDone }) => isDone)).to.deep.equal([]);
      return started;
    });
    for (const { done } of waiting) await done;
  });

  describe('for a user who may not run ROLE, as in hosted services', () => {
    let limited: Store;
    before(async () => {
      await replica.stop();
      raw.disconnect();
      const setUp = new Redis(master.url);
      replica = await startRedis({ args: ['--replicaof', `127.0.0.1 ${master.port}`] });
      raw = new Redis(replica.url);
      raw.on('error', () => undefined);
      await untilInSync(setUp, raw);
      const rights = ['on', '>secret', '~*', '&*', '+@all', '-role'];
      await setUp.call('ACL', 'SETUSER', 'limited', ...rights);
      setUp.disconnect();
      const url = master.url.replace('redis://', 'redis://limited:secret@');
      limited = await openStore({ kind: 'redis', url }, options);
    });
    after(() => limited?.close());

    it('replicated waits for the replica, which is asked with WAIT alone', async () => {
      // On a busy machine the replica may answer too late, and then the next call does not wait for it.
      await until('a wait for the stopped replica', async () => {
        await limited.set('limited:1', 1, 60);
        await limited.replicated('limited:1');
        if ((await raw.keys('limited:*')).length === 0) return false;
        return whileStopped(async () => {
          await limited.set('limited:2', 1, 60);
          const started = performance.now();
          await limited.replicated('limited:2');
          return performance.now() - started > WAIT_MS - 10;
        });
      });
    });

    it('replicated waits only once for the whole time while no replica answers, and again when one does', async () => {
      await whileStopped(async () => {
        await limited.set('limited:3', 1, 60);
        await limited.replicated('limited:3');
        const started = performance.now();
        for (let i = 0; i < 3; i++) await limited.replicated('limited:3');
        expect(performance.now() - started).to.be.below(3 * WAIT_MS);
      });
      await until('the replica to answer', async () => {
        await limited.set('limited:4', 1, 60);
        await limited.replicated('limited:4');
        return (await raw.keys('limited:*')).length > 0;
      });
      await whileStopped(async () => {
        await until('a whole wait', async () => {
          const started = performance.now();
          await limited.set('limited:5', 1, 60);
          await limited.replicated('limited:5');
          return performance.now() - started > WAIT_MS - 10;
        });
      });
    });
  });

  it('replicated does not wait for a replica that has disconnected', async () => {
    await replica.stop();
    await patient.set('alone:1', 1, 60);
    await patient.replicated('alone:1');
  });
});
