import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { type OpenedStore, openStore } from '../../src/store/open.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

const ADDRESS = '203.0.113.9';

describe('Counters', () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'gatehouse-counters-'));
  const options = { secret: 'a root secret of more than 32 characters', dataDir };
  const opened: OpenedStore[] = [];
  let redis: RedisServer;

  before(async () => {
    redis = await startRedis();
  });
  after(async () => {
    await Promise.all(opened.map((store) => store.close()));
    await redis.stop();
    rmSync(dataDir, { recursive: true });
  });

  async function open(kind: 'redis' | 'sqlite'): Promise<OpenedStore> {
    const address = kind === 'redis' ? { kind, url: redis.url } : { kind, file: 'test.sqlite' };
    const store = await openStore(address, options);
    opened.push(store);
    return store;
  }

  for (const kind of ['redis', 'sqlite'] as const) {
    it(`a counter counts each name separately and restarts after its window, on ${kind}`, async () => {
      const store = await open(kind);
      const count = store.openCounter('test', 60);
      const brief = store.openCounter('brief', 1);
      const other = store.openCounter('other', 60);
      const tallies = await Promise.all(Array.from({ length: 50 }, () => count(ADDRESS)));
      expect(tallies.map((tally) => tally.count).toSorted((a, b) => a - b)).to.deep.equal(
        Array.from({ length: 50 }, (_, n) => n + 1),
      );
      expect((await other(ADDRESS)).count).to.equal(1);
      expect((await count('203.0.113.10')).count).to.equal(1);
      for (const { secondsLeft } of tallies) expect(secondsLeft).to.be.within(0, 60);
      await brief(ADDRESS);
      await brief(ADDRESS);
      await until('the counter to restart', async () => (await brief(ADDRESS)).count === 1);
    });
  }

  it('what a process counts that was busy meanwhile is counted in Redis', async () => {
    const count = (await open('redis')).openCounter('busy', 60);
    await count(ADDRESS);
    const counting = count(ADDRESS);
    const busyUntil = performance.now() + 500;
    while (performance.now() < busyUntil);
    expect((await counting).count).to.equal(2);
  });

  it('all processes on one Redis share a counter, and Redis does not reveal the counted name', async () => {
    const [one, two] = [await open('redis'), await open('redis')];
    await one.openCounter('shared', 60)(ADDRESS);
    expect((await two.openCounter('shared', 60)(ADDRESS)).count).to.equal(2);
    const client = new Redis(redis.url);
    const names = await client.keys('limit:*');
    const ttls = await Promise.all(names.map((name) => client.pttl(name)));
    client.disconnect();
    expect(names).to.not.deep.equal([]);
    expect(names.join()).to.not.include('203.0');
    for (const ttl of ttls) expect(ttl, 'without expiry').to.be.above(0);
  });

  it('a counter in memory is bounded and evicts the least recently counted name', async () => {
    const count = (await open('sqlite')).openCounter('many', 600);
    await count('evicted');
    for (let n = 0; n < 50_000; n += 1) {
      await count(`name ${n}`);
      if (n % 10_000 === 0) await count('recent');
    }
    expect((await count('recent')).count).to.equal(6);
    expect((await count('evicted')).count).to.equal(1);
  });

  it('a counter continues in memory while Redis is stalled, and in Redis afterwards', async () => {
    const store = await open('redis');
    const count = store.openCounter('stalled', 60);
    await count(ADDRESS);
    redis.kill('SIGSTOP');
    const counts: number[] = [];
    try {
      for (let n = 0; n < 3; n += 1) {
        counts.push((await count(ADDRESS)).count);
      }
    } finally {
      redis.kill('SIGCONT');
    }
    expect(counts).to.deep.equal([1, 2, 3]);
    const other = await open('redis');
    const reference = other.openCounter('stalled', 60);
    await until('both to use Redis again', async () => {
      const { count: own } = await count(ADDRESS);
      return (await reference(ADDRESS)).count === own + 1 && own > 3;
    });
  });
});
