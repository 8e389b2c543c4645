import { once } from 'node:events';
import { assert } from 'chai';
import { Redis } from 'ioredis';
import type { StoreAddress } from '../../src/settings/addresses.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { type RedisProxy, startRedisProxy } from '../support/faults/redis-proxy.ts';
import { until } from '../support/until.ts';
import { storeContract } from './contract.ts';
import { copyBytes, dumpAll } from './redis-dump.ts';
import {
  expectLoss,
  failOver,
  forgetFailover,
  type RedisNode,
  setPublishPeriod,
  startSentinel,
  type SentinelRedis,
} from './redis-topologies.ts';
import { PATIENT_TIMEOUTS } from '../support/scale-out/patient-timeouts.ts';

const options = { secret: 'a root secret for the tests of the store', dataDir: '/nowhere' };
const patient = { ...options, timeouts: PATIENT_TIMEOUTS };
const NAME = 'main';

const isWritable = async ({ raw }: RedisNode) =>
  (await raw.info('replication')).includes('role:master');

describe('The store on Redis with Sentinel', () => {
  let redis: SentinelRedis;
  let address: StoreAddress;

  before(async function start() {
    redis = await startSentinel(NAME);
    const nodes = [{ host: '127.0.0.1', port: redis.sentinel.port }];
    address = { kind: 'sentinel', nodes, name: NAME, tls: false };
  });
  after(() => redis?.stop());

  storeContract(async () => {
    const store = await openStore(address, patient);
    const second = await openStore(address, patient);
    return {
      store,
      second,
      dump: () => dumpAll(redis.master.raw),
      overwrite: (from, to) => copyBytes(redis.master.raw, from, to),
      openWithSecret: (secret) => openStore(address, { ...patient, secret }),
      async close() {
        await store.close();
        await second.close();
      },
    };
  });

  describe('A failover by Sentinel', () => {
    let store: Store;
    const received = new Set<string>();
    const write = (text: string) =>
      until(`the write ${text}`, () =>
        store.set('moved:1', text, 600).then(
          () => true,
          () => false,
        ),
      );

    before(async () => {
      store = await openStore(address, options);
      await store.subscribe('news', (message) => received.add(message));
    });
    after(() => store?.close());

    it('the store disconnects from a master that became a replica', async () => {
      await store.set('kept:1', 'kept', 600);
      // At the start, Sentinel may let the replica synchronize once more.
      await until('the replica to have it', async () => {
        return (await redis.replica.raw.keys('kept:*')).length > 0;
      });
      // Until it becomes a replica, the old master accepts writes and loses them.
      await setPublishPeriod(redis, 60_000);
      await failOver(redis.sentinel, NAME, redis.replica);
      await until('a write to reach the new master', async () => {
        await store.set('early:1', 1, 600).catch(() => undefined);
        return (await redis.replica.raw.keys('early:*')).length > 0;
      });
      assert.isTrue(await isWritable(redis.master));
      await setPublishPeriod(redis, 100);
      await until('the old master to become a replica', async () =>
        (await redis.master.raw.info('replication')).includes('role:slave'),
      );
      await write('after the first failover');
      assert.equal((await store.get('moved:1'))?.value, 'after the first failover');
      assert.equal((await store.get('kept:1'))?.value, 'kept');
      assert.equal(await redis.replica.raw.exists(...(await redis.replica.raw.keys('moved:*'))), 1);
    });

    it('the store connects to the promoted master after the old one dies, and receives later messages', async () => {
      await until('the new replica to be in sync', async () =>
        (await redis.master.raw.info('replication')).includes('master_link_status:up'),
      );
      await forgetFailover(redis, NAME);
      await expectLoss(redis, NAME);
      await redis.replica.stop();
      await write('after the second failover');
      assert.equal((await store.get('kept:1'))?.value, 'kept');
      await until('a message', async () => {
        await store.publish('news', 'after').catch(() => undefined);
        return received.has('after');
      });
    });
  });

  describe('Sentinel reporting another master while the client connects to the previous one', () => {
    let watched: SentinelRedis;
    let proxy: RedisProxy;
    let store: Store;
    let listener: Redis;

    before(async function start() {
      watched = await startSentinel(NAME);
      proxy = await startRedisProxy(watched.sentinel);
      const { port } = new URL(proxy.url);
      const nodes = [{ host: '127.0.0.1', port: Number(port) }];
      store = await openStore({ kind: 'sentinel', nodes, name: NAME, tls: false }, options);
      listener = new Redis(proxy.url);
      await listener.subscribe('+switch-master');
    });
    after(async () => {
      await store?.close();
      listener?.disconnect();
      await proxy?.close();
      await watched?.stop();
    });

    it('the store reconnects although ioredis stops reconnecting', async () => {
      const named = once(listener, 'message');
      proxy.setRule(({ name }) => (name === 'sentinel' ? 'hold reply' : 'pass'));
      await watched.master.raw.call('CLIENT', 'KILL', 'TYPE', 'normal');
      await proxy.whenHeld();
      await failOver(watched.sentinel, NAME, watched.replica);
      await named;
      // The ping follows the notification on the same path, so the store has received it.
      await listener.ping();
      proxy.release();
      const isWritten = () =>
        store.set('moved:1', 1, 600).then(
          () => true,
          () => false,
        );
      await until('the store to write again', isWritten, 15);
      assert.equal((await store.get('moved:1'))?.value, 1);
    });
  });
});
