import { assert } from 'chai';
import { type OpenedStore, openStore } from '../../src/store/open.ts';
import { openRedis } from '../../src/store/redis.ts';
import type { RedisAddress } from '../../src/store/redis-client.ts';
import { until } from '../support/until.ts';
import { storeContract } from './contract.ts';
import { assertUnavailable } from './availability.ts';
import { bytesOf, dumpAll } from './redis-dump.ts';
import { rewrapContract } from './rewrap-contract.ts';
import { databaseAt, expiriesIn } from './rewrap-database.ts';
import {
  type RedisCluster,
  type RedisNode,
  failOverSoon,
  startCluster,
} from './redis-topologies.ts';
import { STORE_TIMEOUTS } from '../../src/store/timeout.ts';
import { PATIENT_TIMEOUTS } from '../support/scale-out/patient-timeouts.ts';

const options = { secret: 'a root secret for the tests of the store', dataDir: '/nowhere' };
const patient = { ...options, timeouts: PATIENT_TIMEOUTS };

async function findKey(masters: RedisNode[], kind: string): Promise<[RedisNode, string]> {
  for (const node of masters) {
    const [key] = await node.raw.keys(`${kind}:*`);
    if (key) return [node, key];
  }
  throw new Error(`no master holds a key of kind ${kind}`);
}

describe('The store on a Redis Cluster', () => {
  let cluster: RedisCluster;
  let address: RedisAddress;

  before(async function start() {
    cluster = await startCluster();
    const nodes = cluster.masters.map(({ port }) => ({ host: '127.0.0.1', port }));
    address = { kind: 'cluster', nodes, tls: false };
  });
  after(() => cluster?.stop());

  storeContract(async () => {
    const store = await openStore(address, patient);
    const second = await openStore(address, patient);
    return {
      store,
      second,
      dump: async () =>
        Buffer.concat(await Promise.all(cluster.masters.map(({ raw }) => dumpAll(raw)))),
      async overwrite(from, to) {
        const [source, sourceKey] = await findKey(cluster.masters, from);
        const [target, targetKey] = await findKey(cluster.masters, to);
        await target.raw.set(targetKey, await bytesOf(source.raw, sourceKey));
      },
      openWithSecret: (secret) => openStore(address, { ...patient, secret }),
      async close() {
        await store.close();
        await second.close();
      },
    };
  });

  describe('The root secret of a store in a Redis Cluster', () => {
    const empty = () => Promise.all(cluster.masters.map(({ raw }) => raw.flushall()));
    after(empty);

    rewrapContract(async () => {
      await empty();
      const raws = cluster.masters.map((node) => node.raw);
      return databaseAt(address, '/nowhere', {
        openBytes: () => openRedis(address, undefined, { ...STORE_TIMEOUTS, ...PATIENT_TIMEOUTS }),
        expiries: () => expiriesIn(raws),
      });
    });
  });

  describe('Faults of a Redis Cluster', () => {
    let store: OpenedStore;
    beforeEach(async () => {
      store = await openStore(address, options);
    });
    afterEach(() => store?.close());

    it('records are spread over all masters', async () => {
      for (let i = 0; i < 60; i++) await store.set(`spread:${i}`, i, 600);
      const held = await Promise.all(cluster.masters.map(({ raw }) => raw.keys('spread:*')));
      assert.equal(held.flat().length, 60);
      held.forEach((keys) => assert.isNotEmpty(keys));
    });

    it('all processes share a counter, whichever master holds it', async () => {
      const second = await openStore(address, options);
      const counters = [store, second].map((each) => each.openCounter('spread', 60));
      for (const expected of [1, 2]) {
        const counter = counters[expected - 1];
        for (let i = 0; i < 20; i++)
          assert.equal((await counter?.(`address ${i}`))?.count, expected);
      }
      const held = await Promise.all(cluster.masters.map(({ raw }) => raw.keys('limit:*')));
      assert.equal(held.flat().length, 20);
      await second.close();
    });

    it('the store works while the slot of a record moves to another master', async () => {
      await store.set('moving:1', 1, 600);
      const increment = (n = 0) => ({ value: n + 1, ttl: 600 });
      const [from, key] = await findKey(cluster.masters, 'moving');
      const to = cluster.masters.find((node) => node !== from);
      const [fromId, toId] = await Promise.all(
        [from, to].map((node) => node?.raw.call('CLUSTER', 'MYID')),
      );
      const slot = Number(await from.raw.call('CLUSTER', 'KEYSLOT', key));

      await to?.raw.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(fromId));
      await from.raw.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(toId));
      assert.equal((await store.update('moving:1', increment))?.value, 2);
      await from.raw.call('MIGRATE', '127.0.0.1', to?.port ?? 0, key, 0, 5000);
      assert.equal((await store.update('moving:1', increment))?.value, 3);
      for (const { raw } of [to, from, ...cluster.masters].filter((node) => node !== undefined)) {
        await raw.call('CLUSTER', 'SETSLOT', slot, 'NODE', String(toId));
      }
      assert.equal((await store.update('moving:1', increment))?.value, 4);
      assert.equal((await store.get('moving:1'))?.value, 4);
    });

    it('replicated waits for a replica of the master that holds the record, and of no other', async () => {
      const patient = await openStore(address, { ...options, timeouts: { replication: 600_000 } });
      const kinds = Array.from({ length: 12 }, (_, i) => `waiting-${i}`);
      cluster.replica.kill('SIGSTOP');
      const waiting: Promise<unknown>[] = [];
      let acknowledged = 0;
      try {
        for (const kind of kinds) {
          await patient.set(`${kind}:1`, 1, 600);
          const [master] = await findKey(cluster.masters, kind);
          const replicated = patient.replicated(`${kind}:1`);
          if (master === cluster.masters[0])
            waiting.push(replicated.then(() => (acknowledged += 1)));
          else await replicated;
        }
        assert.isNotEmpty(waiting);
        assert.isBelow(waiting.length, kinds.length);
        assert.equal(acknowledged, 0);
      } finally {
        cluster.replica.kill('SIGCONT');
      }
      await Promise.all(waiting);
      await patient.close();
    });

    it('the store is unavailable while the masters are stalled, and works afterwards', async () => {
      cluster.masters.forEach((node) => node.kill('SIGSTOP'));
      try {
        await assertUnavailable(store);
      } finally {
        cluster.masters.forEach((node) => node.kill('SIGCONT'));
      }
      await until('the store to recover', () =>
        store.set('thing:1', 1, 60).then(
          () => true,
          () => false,
        ),
      );
    });

    // This must be the last test, because it stops a master.
    it('the store uses the replica of a master that died and receives later messages', async () => {
      await until('the cluster state to be ok', async () =>
        String(await cluster.replica.raw.cluster('INFO')).includes('cluster_state:ok'),
      );
      const received = new Set<string>();
      await store.subscribe('news', (message) => received.add(message));
      for (let i = 0; i < 60; i++) await store.set(`kept:${i}`, i, 600);
      const [first] = cluster.masters;
      const replicas = await first?.raw.wait(1, 5000);
      assert.equal(replicas, 1);
      await failOverSoon(cluster);
      await first?.stop();
      await until('every record to be found again', async () => {
        const found = await Promise.all(
          Array.from({ length: 60 }, (_, i) =>
            store.get<number>(`kept:${i}`).then(
              (each) => each?.value === i,
              () => false,
            ),
          ),
        );
        return found.every(Boolean);
      });
      await until('a message', async () => {
        await store.publish('news', 'after').catch(() => undefined);
        return received.has('after');
      });
    });
  });
});
