import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { MAX_REDIS_LATENCY_MS } from '../../src/doctor/deployment.ts';
import { checkRedis } from '../../src/doctor/store.ts';
import type { RedisAddress } from '../../src/store/redis-client.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';

const WATCHED: RedisAddress = { kind: 'sentinel', name: 'main', nodes: [], tls: false };
const SLOW_LINK_MS = MAX_REDIS_LATENCY_MS + 5;
/** Above every delay of a busy machine. */
const ANY_LATENCY_MS = 60_000;

describe("doctor's check of Redis", () => {
  let server: RedisServer;
  let redis: Redis;
  let alone: RedisAddress;
  before(async () => {
    server = await startRedis({
      args: ['--loglevel', 'warning', '--repl-diskless-sync-delay', '0'],
    });
    redis = new Redis(server.url);
    await redis.config('SET', 'appendonly', 'yes');
    alone = { kind: 'redis', url: server.url };
  });
  after(async () => {
    redis?.disconnect();
    await server?.stop();
  });

  /** The real server, except for the given commands. */
  const differing = (methods: Partial<Pick<Redis, 'info' | 'ping'>>) =>
    Object.assign(Object.create(redis) as Redis, methods);

  async function failures(client: Redis, store: RedisAddress, maxLatency = ANY_LATENCY_MS) {
    const findings = await checkRedis(client, store, maxLatency);
    return findings
      .filter(({ outcome }) => outcome !== 'ok')
      .map(({ check, outcome, what }) => ({ check, outcome, what }));
  }

  it('a correctly configured Redis has no finding', async () => {
    expect(await failures(redis, alone)).to.deep.equal([]);
  });

  it('a Redis older than 6.2 is a problem', async () => {
    for (const [version, outcomes] of [
      ['6.0.16', ['problem']],
      ['5.0.14', ['problem']],
      ['6.2.0', []],
      ['8.0.1', []],
    ] as const) {
      const info = async () =>
        (await redis.info()).replace(/redis_version:\S+/, `redis_version:${version}`);
      const found = await failures(differing({ info }), alone);
      expect(found.map(({ outcome }) => outcome)).to.deep.equal(outcomes);
      for (const { check } of found) expect(check).to.equal('redis-version');
    }
  });

  it('a Redis that takes longer than 50 ms to answer is a warning', async () => {
    const ping = async () => {
      await delay(SLOW_LINK_MS);
      return redis.ping();
    };
    const [finding, ...others] = await failures(differing({ ping }), alone, MAX_REDIS_LATENCY_MS);
    expect(finding).to.include({ check: 'latency', outcome: 'warning' });
    expect(others).to.deep.equal([]);
  });

  it('a Sentinel master that accepts writes without a replica is a warning', async () => {
    expect(await failures(redis, WATCHED)).to.deep.equal([
      {
        check: 'replicas',
        outcome: 'warning',
        what: 'min-replicas-to-write is 0 and min-replicas-max-lag 10',
      },
      { check: 'replicas', outcome: 'warning', what: 'the master has no replica' },
    ]);
    const replica = await startRedis({ args: ['--replicaof', '127.0.0.1', String(server.port)] });
    await redis.wait(1, 0);
    await redis.config('SET', 'min-replicas-to-write', '1');
    expect(await failures(redis, WATCHED)).to.deep.equal([]);
    await redis.config('SET', 'min-replicas-max-lag', '60');
    const [loose] = await failures(redis, WATCHED);
    expect(loose?.what).to.equal('min-replicas-to-write is 1 and min-replicas-max-lag 60');
    await redis.config('SET', 'min-replicas-to-write', '0');
    await replica.stop();
  });

  it('a Redis that does not show its configuration is no warning', async () => {
    await redis.call(
      'ACL',
      'SETUSER',
      'gatehouse',
      'on',
      '>secret',
      '~*',
      '&*',
      '+@all',
      '-config',
    );
    const limited = new Redis(server.url, { username: 'gatehouse', password: 'secret' });
    expect(await failures(limited, alone)).to.deep.equal([]);
    expect(await failures(limited, WATCHED)).to.deep.equal([
      {
        check: 'replicas',
        outcome: 'unknown',
        what: 'Redis does not show min-replicas-to-write',
      },
    ]);
    limited.disconnect();
  });
});
