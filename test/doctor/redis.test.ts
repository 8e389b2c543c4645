// What the doctor says about a Redis server that is old, slow, alone under Sentinel, or does not show its configuration.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { redisFindings } from '../../src/doctor/redis.ts';
import type { RedisAddress } from '../../src/store/redis-client.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';

const WATCHED: RedisAddress = { kind: 'sentinel', name: 'main', nodes: [], tls: false };
const SLOW_LINK_MS = 55;

describe('the doctor and Redis', () => {
  let server: RedisServer;
  let redis: Redis;
  let alone: RedisAddress;
  before(async () => {
    server = await startRedis({ args: ['--loglevel', 'warning'] });
    redis = new Redis(server.url);
    await redis.config('SET', 'appendonly', 'yes');
    alone = { kind: 'redis', url: server.url };
  });
  after(async () => {
    redis?.disconnect();
    await server?.stop();
  });

  /** The real server, with one command as another server or network would answer it. */
  const differing = (methods: Partial<Pick<Redis, 'info' | 'ping'>>) =>
    Object.assign(Object.create(redis) as Redis, methods);

  async function complaints(client: Redis, store: RedisAddress) {
    const findings = await redisFindings(client, store);
    return findings
      .filter(({ outcome }) => outcome !== 'ok')
      .map(({ check, outcome, what }) => ({ check, outcome, what }));
  }

  it('have nothing to say when all is right', async () => {
    expect(await complaints(redis, alone)).to.deep.equal([]);
  });

  it('is too old when it does not know what Gatehouse needs', async () => {
    for (const [version, outcomes] of [
      ['6.0.16', ['problem']],
      ['5.0.14', ['problem']],
      ['6.2.0', []],
      ['8.0.1', []],
    ] as const) {
      const info = async () =>
        (await redis.info()).replace(/redis_version:\S+/, `redis_version:${version}`);
      const found = await complaints(differing({ info }), alone);
      expect(found.map(({ outcome }) => outcome)).to.deep.equal(outcomes);
      for (const { check } of found) expect(check).to.equal('redis-version');
    }
  });

  it('is slow when it takes longer than a call may wait several times', async () => {
    const ping = async () => {
      await delay(SLOW_LINK_MS);
      return redis.ping();
    };
    const [finding, ...others] = await complaints(differing({ ping }), alone);
    expect(finding).to.include({ check: 'latency', outcome: 'warning' });
    expect(others).to.deep.equal([]);
  });

  it('takes writes alone under Sentinel until it is told not to', async () => {
    expect(await complaints(redis, WATCHED)).to.deep.equal([
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
    expect(await complaints(redis, WATCHED)).to.deep.equal([]);
    await redis.config('SET', 'min-replicas-max-lag', '60');
    const [loose] = await complaints(redis, WATCHED);
    expect(loose?.what).to.equal('min-replicas-to-write is 1 and min-replicas-max-lag 60');
    await redis.config('SET', 'min-replicas-to-write', '0');
    await replica.stop();
  });

  it('is not blamed for keeping its configuration to itself', async () => {
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
    expect(await complaints(limited, alone)).to.deep.equal([]);
    expect(await complaints(limited, WATCHED)).to.deep.equal([
      {
        check: 'replicas',
        outcome: 'unknown',
        what: 'Redis does not show min-replicas-to-write',
      },
    ]);
    limited.disconnect();
  });
});
