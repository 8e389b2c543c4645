import { setImmediate } from 'node:timers/promises';
import { assert, expect } from 'chai';
import { Redis } from 'ioredis';
import type { StoreAddress } from '../../src/settings/addresses.ts';
import { type ByteStore, FIELD_LENGTH, MEMBERS_PER_PAGE } from '../../src/store/byte-store.ts';
import { type Store, type StoreLogger, StoreUnavailable } from '../../src/store/store.ts';
import { openStore, type StoreOptions } from '../../src/store/open.ts';
import { openRedis } from '../../src/store/redis.ts';
import { createEncryption } from '../../src/store/encryption.ts';
import { encryptedStore } from '../../src/store/encrypted-store.ts';
import { freePorts } from '../support/free-ports.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { until } from '../support/until.ts';
import { storeContract } from './contract.ts';
import { addMembers } from './contract-fixture.ts';
import { assertAvailable, assertUnavailable } from './availability.ts';
import { copyBytes, dumpAll } from './redis-dump.ts';
import { startProxy, type TcpProxy } from './tcp-proxy.ts';
import { keysOfVersion1 } from './version-1-store.ts';
import { PATIENT_TIMEOUTS } from '../support/scale-out/patient-timeouts.ts';
import { STORE_TIMEOUTS } from '../../src/store/timeout.ts';

const options = { secret: 'a root secret for the tests of the store', dataDir: '/nowhere' };
const patient = { ...options, timeouts: PATIENT_TIMEOUTS };
const at = (port: number): StoreAddress => ({ kind: 'redis', url: `redis://127.0.0.1:${port}` });

const SHORT_SILENCE = { command: 300, silence: 600 };

/** Closed after each test, also when it fails. */
const closers: (() => unknown)[] = [];

async function open(address: StoreAddress, more: Partial<StoreOptions> = {}): Promise<Store> {
  const store = await openStore(address, { ...options, ...more });
  closers.push(() => store.close());
  return store;
}

async function openBytes({ url }: RedisServer): Promise<ByteStore> {
  const bytes = await openRedis({ kind: 'redis', url });
  closers.push(bytes.close);
  return bytes;
}

async function start(how: Parameters<typeof startRedis>[0] = {}): Promise<RedisServer> {
  const server = await startRedis(how);
  closers.push(() => server.stop());
  return server;
}

async function proxyTo(server: RedisServer): Promise<TcpProxy> {
  const proxy = await startProxy(server.port);
  closers.push(() => proxy.close());
  return proxy;
}

function connectRaw(server: RedisServer): Redis {
  const raw = new Redis(server.url);
  closers.push(() => raw.disconnect());
  return raw;
}

const refusal = (opening: Promise<unknown>): Promise<Error> =>
  opening.then(
    () => assert.fail('the store opened'),
    (reason: Error) => reason,
  );

describe('The store on Redis', () => {
  let server: RedisServer;
  before(async () => {
    server = await startRedis({ args: ['--stream-node-max-entries', '10'] });
  });
  after(() => server?.stop());
  afterEach(async () => {
    for (const close of closers.splice(0).toReversed()) await close();
  });

  storeContract(async () => {
    const store = await openStore(at(server.port), patient);
    const second = await openStore(at(server.port), patient);
    const raw = new Redis(server.url);
    return {
      store,
      second,
      dump: () => dumpAll(raw),
      overwrite: (from, to) => copyBytes(raw, from, to),
      openWithSecret: (secret) => openStore(at(server.port), { ...patient, secret }),
      async close() {
        await store.close();
        await second.close();
        raw.disconnect();
      },
    };
  });

  it('a service that spreads keys over servers behind one address gets no script with keys of several slots', async () => {
    const sharded = await start({ args: ['--cluster-enabled', 'yes'] });
    const raw = connectRaw(sharded);
    await raw.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
    await until('the slots to be served', async () =>
      String(await raw.call('CLUSTER', 'INFO')).includes('cluster_state:ok'),
    );
    const store = await open(at(sharded.port));
    const sets = ['one:set', 'other:set'].map((key) => ({ key, member: 'm', ttl: 60 }));
    assert.isTrue(await store.add('some:value', 1, 60, sets));
    for (const { key } of sets) assert.deepEqual(await store.members(key), ['m']);
    const { addToCounts } = await openBytes(sharded);
    const counts = ['a', 'b', 'c'].map((name) => ({
      name: `count:${name}`,
      times: 1,
      seconds: 60,
    }));
    assert.deepEqual(
      (await addToCounts?.(counts))?.map(({ count }) => count),
      [1, 1, 1],
    );
  });

  it('a member that was read is not a member of another set into which its field is copied', async () => {
    const store = await openStore(at(server.port), options);
    closers.push(() => store.close());
    await store.addMember('source:1', 'of the source', 1000);
    await store.addMember('target:1', 'of the target', 1000);
    assert.deepEqual(await store.members('source:1'), ['of the source']);
    const raw = connectRaw(server);
    const [[source = ''], [target = '']] = await Promise.all([
      raw.keys('source:*'),
      raw.keys('target:*'),
    ]);
    await raw.hset(target, await raw.hgetallBuffer(source));
    assert.deepEqual(await store.members('target:1'), ['of the target']);
  });

  it('additions of one turn share a command, which adds to each counter once, and each addition gets the count after it', async () => {
    const { addToCounts } = await openBytes(server);
    const raw = connectRaw(server);
    await raw.config('RESETSTAT');
    const counter = (name: string, times: number) => ({
      name: `count:${name}`,
      times,
      seconds: 60,
    });
    const add = (times: number) =>
      addToCounts?.([counter('shared', times), counter(`of ${times}`, 1)]);
    const first = [add(3), add(1)];
    await setImmediate();
    const added = [...first, add(2), add(1)];
    const counted = (await Promise.all(added)).map((each) => each ?? []);
    const [shared, own] = [0, 1].map((n) => counted.map((counts) => counts[n]?.count));
    assert.deepEqual(shared, [3, 4, 6, 7]);
    assert.deepEqual(own, [1, 1, 1, 2]);
    for (const { left } of counted.flat()) expect(left).to.be.within(59_000, 60_000);
    const used = await raw.info('commandstats');
    const callsOf = (command: string) =>
      Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(used)?.[1] ?? 0);
    expect(callsOf('eval') + callsOf('evalsha')).to.equal(2);
    expect(callsOf('incrby')).to.equal(3 + 3);
  });

  it('a large set is read in pages, because reading it at once would block Redis', async () => {
    const store = await open(at(server.port));
    const raw = connectRaw(server);
    const adding = await addMembers(store, 'many:members', 3 * MEMBERS_PER_PAGE);
    await raw.config('RESETSTAT');
    assert.lengthOf(await store.members('many:members'), adding.length);
    const used = await raw.info('commandstats');
    const calls = Number(/cmdstat_hscan:calls=(\d+)/.exec(used)?.[1]);
    expect(calls).to.be.at.least(3);
    assert.notInclude(used, 'cmdstat_hgetall');
  });

  it('a set is read completely when another server with other cursors takes over between two pages', async () => {
    const other = await start();
    const encryption = createEncryption(keysOfVersion1([options.secret]));
    const [before, after] = [await openBytes(server), await openBytes(other)];
    const store = encryptedStore(before, encryption);
    const adding = await addMembers(store, 'moved:members', 3 * MEMBERS_PER_PAGE);
    const name = encryption.name('moved:members');
    await connectRaw(other).restore(name, 0, await connectRaw(server).dumpBuffer(name));
    let pages = 0;
    const members: ByteStore['members'] = (of, from) =>
      ((pages += 1) <= 2 ? before : after).members(of, from);
    const moving = encryptedStore({ ...after, members }, encryption);
    assert.sameMembers(await moving.members('moved:members'), adding);
  });

  it('the order of a set is repaired after an earlier version added and removed members', async () => {
    const store = await open(at(server.port));
    const raw = connectRaw(server);
    const many = Array.from({ length: 110 }, (_, n) => `${n}.x`);
    await Promise.all(many.toReversed().map((each) => store.addMember('earlier:set', each, 60)));
    const [name = ''] = await raw.keys('earlier:*');
    const order = `order:{${name}}`;
    assert.deepEqual(await store.page('earlier:set', { limit: 2 }), ['0.x', '1.x']);
    await raw.del(order);
    assert.deepEqual(await store.page('earlier:set', { limit: 2 }), ['0.x', '1.x']);
    expect(await raw.pttl(order)).to.be.within(1, 60_000);
    const [place = ''] = await raw.zrange(order, '0', '0');
    await raw.zrem(order, place);
    assert.deepEqual(await store.page('earlier:set', { limit: 200 }), many);
    await raw.hdel(name, place.slice(-FIELD_LENGTH));
    assert.deepEqual(await store.page('earlier:set', { limit: 200 }), many.slice(1));
    assert.equal(await raw.zcard(order), 109);
  });

  it('a large set without an order is read by page while Redis refuses writes', async () => {
    const own = await start();
    const store = await open(at(own.port));
    const raw = connectRaw(own);
    const adding = await addMembers(store, 'large:set', 150);
    const readPages = async () => {
      const first = await store.page('large:set', { limit: 90 });
      const range = { after: first.at(-1), limit: 90 };
      return [...first, ...(await store.page('large:set', range))];
    };
    for (const setting of ['maxmemory', 'min-replicas-to-write']) {
      await raw.config('SET', setting, 1);
      assert.sameMembers(await readPages(), adding);
      await raw.config('SET', setting, 0);
    }
    const unordered = await store.page('large:set', { limit: 150, newestFirst: true });
    assert.deepEqual(await readPages(), unordered.toReversed());
  });

  it('a reply that arrived while the process was busy counts, although the time of the command is over', async () => {
    const store = await open(at(server.port), { timeouts: { command: 400, operation: 10_000 } });
    const reading = store.get('nobody:wrote');
    // The command is written at the end of the turn.
    await setImmediate();
    const busyUntil = performance.now() + 900;
    while (performance.now() < busyUntil);
    assert.isUndefined(await reading);
  });

  it('commands that are sent only after the process was busy have time for their replies', async () => {
    const store = await open(at(server.port));
    const others = await open(at(server.port), patient);
    await others.set('held-up:record', 1, 60);
    const updating = store.update<number>('held-up:record', (value = 0) => {
      return { value: value + 1, ttl: 60 };
    });
    const busyUntil = performance.now() + 2 * STORE_TIMEOUTS.operation;
    while (performance.now() < busyUntil);
    assert.equal((await updating)?.value, 2);
  });

  it('an update that another writer overtook while the process was busy is tried once more', async () => {
    const encryption = createEncryption(keysOfVersion1([options.secret]));
    const bytes = await openBytes(server);
    const others = encryptedStore(bytes, encryption);
    let attempts = 0;
    const compareAndSwap: ByteStore['compareAndSwap'] = async (...given) => {
      attempts += 1;
      if (attempts === 1) {
        await others.set('overtaken:record', 5, 60);
        const busyUntil = performance.now() + 2 * STORE_TIMEOUTS.operation;
        while (performance.now() < busyUntil);
      }
      return bytes.compareAndSwap(...given);
    };
    const store = encryptedStore({ ...bytes, compareAndSwap }, encryption);
    await others.set('overtaken:record', 1, 60);
    const add = (value = 0) => ({ value: value + 1, ttl: 60 });
    assert.equal((await store.update<number>('overtaken:record', add))?.value, 6);
  });

  it('every record has its TTL in Redis, and a record without expiry has none', async () => {
    const store = await open(at(server.port));
    const raw = connectRaw(server);
    await store.set('timed:set', 1, 100);
    await store.add('timed:add', 1, 100);
    await store.update('timed:update', () => ({ value: 1, ttl: 100 }));
    await store.addMember('timed:members', 'ada', 100);
    await store.append('timed:stream', 1, 100);
    const timed = await raw.keys('timed:*');
    assert.lengthOf(timed, 5);
    for (const key of timed) expect(await raw.pttl(key)).to.be.within(1, 100_000);

    await store.set('lasting:set', 1, Infinity);
    await store.add('lasting:add', 1, Infinity);
    await store.update('lasting:update', () => ({ value: 1, ttl: Infinity }));
    await store.addMember('lasting:members', 'ada', 100);
    await store.addMember('lasting:members', 'grace', Infinity);
    await store.append('lasting:stream', 1, 100);
    await store.append('lasting:stream', 1, Infinity);
    const lasting = await raw.keys('lasting:*');
    assert.lengthOf(lasting, 5);
    for (const key of lasting) assert.equal(await raw.pttl(key), -1);
  });

  it('the oldest entries of a stream that is always in use are trimmed', async () => {
    const store = await open(at(server.port));
    const raw = connectRaw(server);
    let appended = 0;
    await until('the stream to be trimmed', async () => {
      await store.append('busy:1', ++appended, 0.2);
      const [key = ''] = await raw.keys('busy:*');
      return (await raw.xlen(key)) < appended;
    });
    await store.append('busy:1', 'the last', 60);
    const newest = (await store.range<number | string>('busy:1', { limit: 10_000 })).at(-1);
    assert.equal(newest?.value, 'the last');
  });

  it('SUP-03 the store does not open while Redis would evict records, and is not ready once that is configured', async () => {
    const evicting = await start({ args: ['--maxmemory-policy', 'allkeys-lru'] });
    const raw = connectRaw(evicting);
    const error = await refusal(open(at(evicting.port)));
    expect(error.message).to.include('maxmemory-policy').and.include('allkeys-lru');
    await raw.config('SET', 'maxmemory-policy', 'noeviction');
    const store = await open(at(evicting.port));
    await store.ping();
    await raw.config('SET', 'maxmemory-policy', 'volatile-ttl');
    expect(await refusal(store.ping())).to.be.instanceOf(StoreUnavailable);
  });

  describe('Opening the store', () => {
    // A process that starts without a store shows that the default is five seconds.
    const timeouts = { open: 500 };

    it('opening fails after a time limit with the address, without the password, if no server answers', async () => {
      const [port = 0] = await freePorts(1);
      const url = `redis://someone:hunter2@127.0.0.1:${port}`;
      const { message } = await refusal(open({ kind: 'redis', url }, { timeouts }));
      expect(message).to.include('tried for 0.5 s');
      expect(message).to.include(`127.0.0.1:${port}`).and.include('ECONNREFUSED');
      expect(message).to.include('GATEHOUSE_STORE').and.not.include('hunter2');
    });
    it('opening fails with the reason if the password is wrong', async () => {
      const guarded = await start();
      await connectRaw(guarded).config('SET', 'requirepass', 'right');
      const url = `redis://:hunter2@127.0.0.1:${guarded.port}`;
      const { message } = await refusal(open({ kind: 'redis', url }, { timeouts }));
      expect(message).to.include('WRONGPASS').and.not.include('hunter2');
    });
    it('opening waits for a server that is still starting', async () => {
      const [port = 0] = await freePorts(1);
      const opening = open(at(port));
      await start({ port });
      await (await opening).ping();
    });
  });

  describe('A Redis server that is down', () => {
    it('every verb fails while the server is down and works when it is back', async () => {
      const first = await start();
      const warnings: object[] = [];
      const logger: StoreLogger = {
        warn: (details) => warnings.push(details),
        error: () => undefined,
      };
      const store = await open(at(first.port), { logger });
      await first.stop();
      await assertUnavailable(store);
      await start({ port: first.port });
      await assertAvailable(store);
      assert.lengthOf(warnings, 1);
    });
    it('a subscription receives messages again when the server is back', async () => {
      const first = await start();
      const store = await open(at(first.port));
      const received = new Set<string>();
      await store.subscribe('news', (message) => received.add(message));
      await first.stop();
      await start({ port: first.port });
      await until('a message', async () => {
        await store.publish('news', 'after').catch(() => undefined);
        return received.has('after');
      });
    });
  });

  it('a subscription that was refused for a while receives messages again, without affecting other commands', async () => {
    const guarded = await start();
    const raw = connectRaw(guarded);
    const warned: object[] = [];
    const logger: StoreLogger = { warn: (details) => warned.push(details), error: () => undefined };
    const store = await open(at(guarded.port), { logger });
    const received = new Set<string>();
    await store.subscribe('news', (message) => received.add(message));
    await raw.call('ACL', 'SETUSER', 'default', 'resetchannels');
    await raw.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await until('the refusal to be logged', () =>
      warned.some((details) => 'err' in details && String(details.err).includes('NOPERM')),
    );
    await store.set('thing:1', 1, 60);
    await raw.call('ACL', 'SETUSER', 'default', 'allchannels');
    await until('a message', async () => {
      await store.publish('news', 'after');
      return received.has('after');
    });
  });

  describe('A Redis server that is stalled', () => {
    it('every verb fails while the server is stalled and works when it continues', async () => {
      const stalled = await start();
      const store = await open(at(stalled.port));
      stalled.kill('SIGSTOP');
      await assertUnavailable(store);
      await assertUnavailable(store);
      stalled.kill('SIGCONT');
      await assertAvailable(store);
    });
    it('the store works after a stall that outlasted the connection', async () => {
      const stalled = await start();
      let isLost = false;
      const logger: StoreLogger = { warn: () => void (isLost = true), error: () => undefined };
      const store = await open(at(stalled.port), { logger, timeouts: SHORT_SILENCE });
      stalled.kill('SIGSTOP');
      await until('the connection to be closed', async () => {
        await store.ping().catch(() => undefined);
        return isLost;
      });
      await assertUnavailable(store);
      stalled.kill('SIGCONT');
      await assertAvailable(store);
    });
    it('the store closes while the server is stalled', async () => {
      const stalled = await start();
      const store = await openStore(at(stalled.port), options);
      stalled.kill('SIGSTOP');
      await store.close();
    });
  });

  describe('A network that loses data', () => {
    it('an add whose reply was lost still returns true', async () => {
      const proxy = await proxyTo(server);
      const store = await open(at(proxy.port));
      await store.add('warm:1', 'loads the script', 60);
      proxy.loseReplyTo('lost:');
      assert.isTrue(await store.add('lost:add', 'mine', 60));
      await proxy.replyLost();
      assert.equal((await store.get('lost:add'))?.value, 'mine');
    });
    it('an update whose reply was lost is applied once', async () => {
      const proxy = await proxyTo(server);
      const store = await open(at(proxy.port));
      await store.set('lost:count', 1, 60);
      const seen = await store.get<number>('lost:count');
      const increment = (n = 0) => ({ value: n + 1, ttl: 60 });
      proxy.loseReplyTo('lost:');
      const after = await store.update<number>('lost:count', increment, seen);
      await proxy.replyLost();
      assert.equal(after?.value, 2);
      assert.equal((await store.get('lost:count'))?.value, 2);
    });
    it('a connection that has gone silent is replaced', async () => {
      const proxy = await proxyTo(server);
      const store = await open(at(proxy.port), { timeouts: SHORT_SILENCE });
      proxy.silence();
      await assertUnavailable(store);
      await assertAvailable(store);
    });
  });
});
