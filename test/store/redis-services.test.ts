// Redis, its relatives and hosted services, as their documents describe them: how each starts, and what doctor says about it.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { checkRedis } from '../../src/doctor/store.ts';
import { openStore } from '../../src/store/open.ts';
import type { StoreLogger } from '../../src/store/store.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import {
  type Answer,
  noPermission,
  type RedisServiceShape,
  startRedisService,
  unknownCommand,
} from '../support/redis-service.ts';

const SECRET = 'a root secret for the tests of the store';
const ANY_LATENCY_MS = 60_000;

/** Either what the test expects, or why there is nothing to test. */
type Cell<T> = T | { reason: string };

type Service = {
  name: string;
  /** Documents of the service from which its shape was taken. */
  sources: string[];
  shape: RedisServiceShape;
  /** The name in an address, by which doctor recognises it. */
  host?: string;
  /** Of INFO, for a new server. `null`: not told. */
  defaultPolicy: string | null;
  /** How the start ends with the default policy. */
  start: 'starts' | RegExp;
  /** Other names of policies that evict. Each stops the start. */
  eviction: Cell<string[]>;
  /** What doctor says about a crash. */
  durability: Cell<RegExp>;
  /** `role`: by ROLE and WAIT, `wait`: by WAIT alone. */
  replication: Cell<'role' | 'wait' | 'cannot wait'>;
  /** The checks of doctor that are not `ok` if eviction is off, with their outcomes. */
  doctor: Cell<Record<string, 'unknown' | 'note' | 'warning' | 'problem'>>;
};

const replace =
  (fields: Record<string, string | undefined>) =>
  (text: string): string => {
    const kept = text
      .split('\r\n')
      .filter((line) => !Object.keys(fields).some((name) => line.startsWith(`${name}:`)));
    const added = Object.entries(fields).flatMap(([name, value]) =>
      value === undefined ? [] : [`${name}:${value}`],
    );
    return [...added, ...kept].join('\r\n');
  };

/** ROLE of Dragonfly: no offsets. */
const roleWithStates: Answer = () =>
  '*2\r\n$6\r\nmaster\r\n*1\r\n*3\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n$11\r\nstable_sync\r\n';

const EVICTING = ['volatile-lru', 'volatile-ttl', 'volatile-random', 'volatile-lfu', 'allkeys-lru'];
const EVICTS = /evicts records.*maxmemory-policy (volatile-lru|allkeys-lru).*noeviction/;

const SERVICES: Service[] = [
  {
    name: 'Redis',
    sources: ['https://redis.io/docs/latest/develop/reference/eviction/'],
    shape: {},
    defaultPolicy: 'noeviction',
    start: 'starts',
    eviction: EVICTING,
    durability: /the append-only file is off.*CONFIG SET appendonly yes/,
    replication: 'role',
    doctor: { persistence: 'warning' },
  },
  {
    name: 'Valkey',
    sources: ['https://valkey.io/commands/info/'],
    shape: { info: replace({ server_name: 'valkey', valkey_version: '8.1.4' }) },
    defaultPolicy: 'noeviction',
    start: 'starts',
    eviction: EVICTING,
    durability: /the append-only file is off.*CONFIG SET appendonly yes/,
    replication: 'role',
    doctor: { persistence: 'warning' },
  },
  {
    name: 'KeyDB',
    sources: ['https://docs.keydb.dev/docs/compatibility/'],
    shape: { info: replace({ redis_version: '6.3.4' }) },
    defaultPolicy: 'noeviction',
    start: 'starts',
    eviction: EVICTING,
    durability: /the append-only file is off.*CONFIG SET appendonly yes/,
    replication: 'role',
    doctor: { persistence: 'warning' },
  },
  {
    name: 'Amazon ElastiCache',
    sources: [
      'https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/ClientConfig.RestrictedCommands.html',
      'https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/ParameterGroups.Engine.html',
    ],
    shape: {
      answers: { CONFIG: unknownCommand },
      info: replace({ os: 'Amazon ElastiCache' }),
    },
    host: 'main.abc123.ng.0001.use1.cache.amazonaws.com',
    defaultPolicy: 'volatile-lru',
    start: EVICTS,
    eviction: EVICTING,
    durability: /ElastiCache may lose writes.*Multi-AZ/,
    replication: 'role',
    doctor: { persistence: 'warning' },
  },
  {
    name: 'Amazon MemoryDB',
    sources: [
      'https://docs.aws.amazon.com/memorydb/latest/devguide/what-is-memorydb.html',
      'https://docs.aws.amazon.com/memorydb/latest/devguide/restrictedcommands.html',
    ],
    shape: { answers: { CONFIG: unknownCommand } },
    host: 'clustercfg.main.abc123.memorydb.us-east-1.amazonaws.com',
    defaultPolicy: 'noeviction',
    start: 'starts',
    eviction: EVICTING,
    durability: /MemoryDB keeps every write/,
    replication: 'role',
    doctor: {},
  },
  {
    name: 'Google Memorystore',
    sources: [
      'https://docs.cloud.google.com/memorystore/docs/redis/redis-configs',
      'https://docs.cloud.google.com/memorystore/docs/redis/product-constraints',
    ],
    shape: { answers: { CONFIG: unknownCommand } },
    defaultPolicy: 'volatile-lru',
    start: EVICTS,
    eviction: EVICTING,
    durability: /append-only file is off.*refuses CONFIG.*where the service is set up/,
    replication: 'role',
    doctor: { persistence: 'warning' },
  },
  {
    name: 'Redis Cloud and Redis Enterprise',
    sources: [
      'https://redis.io/docs/latest/operate/rs/references/compatibility/commands/server/',
      'https://redis.io/docs/latest/operate/rs/clusters/optimize/wait/',
    ],
    shape: {
      answers: { ROLE: unknownCommand, CONFIG: unknownCommand },
      info: replace({ total_system_memory: undefined, maxmemory: '0' }),
    },
    host: 'redis-12345.c1.us-east-1-2.ec2.redns.redis-cloud.com',
    defaultPolicy: 'volatile-lru',
    start: EVICTS,
    eviction: EVICTING,
    durability: /may lose writes.*append-only file, every write or every second/,
    replication: 'wait',
    doctor: { persistence: 'warning', memory: 'unknown' },
  },
  {
    name: 'Azure Managed Redis',
    sources: [
      'https://learn.microsoft.com/azure/redis/best-practices-memory-management',
      'https://learn.microsoft.com/azure/redis/how-to-persistence',
    ],
    shape: { answers: { ROLE: unknownCommand, CONFIG: unknownCommand } },
    host: 'main.westeurope.redis.azure.net',
    defaultPolicy: 'volatile-lru',
    start: EVICTS,
    eviction: EVICTING,
    durability: /Azure Managed Redis may lose writes.*Azure portal/,
    replication: 'wait',
    doctor: { persistence: 'warning' },
  },
  {
    name: 'Upstash',
    sources: [
      'https://upstash.com/docs/redis/features/eviction',
      'https://upstash.com/docs/redis/features/durability',
      'https://upstash.com/docs/redis/commands/generic/wait',
    ],
    shape: {
      answers: { ROLE: unknownCommand, CONFIG: unknownCommand },
      info: replace({
        upstash_version: '1.12.0',
        aof_enabled: undefined,
        used_memory: undefined,
        maxmemory: undefined,
        total_system_memory: undefined,
      }),
    },
    host: 'eu2-main-30000.upstash.io',
    defaultPolicy: null,
    start: 'starts',
    eviction: ['optimistic-volatile'],
    durability: /Upstash keeps every write/,
    replication: 'wait',
    doctor: { memory: 'unknown' },
  },
  {
    name: 'Dragonfly',
    sources: [
      'https://www.dragonflydb.io/docs/command-reference/compatibility',
      'https://www.dragonflydb.io/docs/managing-dragonfly/flags',
    ],
    shape: {
      answers: { ROLE: roleWithStates, WAIT: unknownCommand },
      info: replace({ dragonfly_version: 'df-v1.34.2', aof_enabled: undefined }),
    },
    defaultPolicy: 'noeviction',
    start: 'starts',
    eviction: ['eviction'],
    durability: /Dragonfly may lose writes.*--snapshot_cron/,
    replication: 'cannot wait',
    doctor: { persistence: 'warning', replication: 'warning' },
  },
  {
    name: 'Garnet',
    sources: [
      'https://microsoft.github.io/garnet/docs/commands/api-compatibility',
      'https://microsoft.github.io/garnet/docs/welcome/compatibility',
    ],
    shape: {
      answers: {
        XADD: () => '-ERR unknown command\r\n',
        XRANGE: () => '-ERR unknown command\r\n',
        XREVRANGE: () => '-ERR unknown command\r\n',
        EVAL: () => '-ERR This instance has Lua scripting support disabled\r\n',
        EVALSHA: () => '-ERR This instance has Lua scripting support disabled\r\n',
      },
    },
    defaultPolicy: null,
    start:
      /lacks streams \(XADD, XRANGE, XREVRANGE\), scripts \(EVAL, EVALSHA\), which Gatehouse needs/,
    eviction: { reason: 'it does not start with any policy' },
    durability: { reason: 'it does not start' },
    replication: { reason: 'it does not start' },
    doctor: { reason: 'the check of its commands says what the start says' },
  },
];

describe('Redis services', () => {
  let server: RedisServer;
  const closers: (() => unknown)[] = [];
  before(async () => {
    server = await startRedis();
  });
  after(() => server?.stop());
  afterEach(async () => {
    for (const close of closers.splice(0).toReversed()) await close();
  });

  /** Starts the service with a policy, or without telling one. */
  async function startService({ shape }: Service, policy: string | null) {
    const info = (text: string) =>
      replace({ maxmemory_policy: policy ?? undefined })(shape.info?.(text) ?? text);
    const service = await startRedisService(server, { ...shape, info });
    closers.push(service.close);
    return service;
  }

  /** The messages of warnings, or the error. */
  async function open(service: Service, policy: string | null): Promise<string[] | Error> {
    const { url } = await startService(service, policy);
    const warnings: string[] = [];
    const logger: StoreLogger = {
      warn: (_details, message) => void warnings.push(message),
      error: () => undefined,
    };
    try {
      const options = { secret: SECRET, dataDir: '/nowhere', logger };
      const store = await openStore({ kind: 'redis', url }, options);
      await store.close();
      return warnings;
    } catch (error) {
      return error as Error;
    }
  }

  async function examine(service: Service, policy: string | null = 'noeviction') {
    const { url } = await startService(service, policy);
    const redis = new Redis(url);
    closers.push(() => redis.disconnect());
    const { host = '127.0.0.1' } = service;
    const named: Redis = Object.assign(Object.create(redis), {
      options: { ...redis.options, host },
    });
    return checkRedis(named, { kind: 'redis', url }, ANY_LATENCY_MS);
  }

  for (const service of SERVICES) {
    const { name, defaultPolicy, start, eviction, durability, replication, doctor } = service;
    describe(name, () => {
      it(`${name}, as it is set up by default, ${start === 'starts' ? 'can be used' : 'stops the start'}`, async () => {
        const result = await open(service, defaultPolicy);
        if (start === 'starts') expect(result).to.be.an('array');
        else expect(result).to.be.an('error').with.property('message').that.matches(start);
      });

      if (Array.isArray(eviction))
        it(`SUP-03 ${name} with any policy that evicts stops the start, and doctor says so`, async () => {
          for (const policy of eviction) {
            const result = await open(service, policy);
            expect(result).to.be.an('error').with.property('message').that.includes(policy);
            const found = (await examine(service, policy)).find(
              ({ check }) => check === 'eviction',
            );
            expect(found).to.include({ outcome: 'problem', what: `maxmemory-policy is ${policy}` });
          }
          expect(await open(service, 'noeviction')).to.be.an('array');
          expect(String(await open(service, null))).to.include('whether it evicts records');
        });

      if (durability instanceof RegExp)
        it(`doctor's advice on losing writes fits ${name}`, async () => {
          const found = (await examine(service)).find(({ check }) => check === 'persistence');
          expect(`${found?.what} ${found?.remedy}`).to.match(durability);
        });

      if (typeof replication === 'string')
        it(`${name}: Gatehouse ${replication === 'cannot wait' ? 'warns that it cannot wait' : 'waits'} for replicas`, async () => {
          const result = await open(service, 'noeviction');
          const warnings = (Array.isArray(result) ? result : []).filter((each) =>
            each.includes('wait for replicas'),
          );
          expect(warnings).to.have.lengthOf(replication === 'cannot wait' ? 1 : 0);
        });

      if (!('reason' in doctor))
        it(`doctor examines all of ${name}`, async () => {
          const findings = await examine(service);
          const others = findings.filter(({ outcome }) => outcome !== 'ok');
          expect(
            Object.fromEntries(others.map(({ check, outcome }) => [check, outcome])),
          ).to.deep.equal(doctor);
          expect(findings.map(({ check }) => check)).to.include.members(['latency', 'clock']);
        });
    });
  }

  it('a user who may run neither INFO nor TIME nor CONFIG leaves these checks undone, and ends no other', async () => {
    const refused = { INFO: noPermission, TIME: noPermission, CONFIG: noPermission };
    const service = await startRedisService(server, { answers: refused });
    closers.push(service.close);
    const redis = new Redis(service.url, { enableReadyCheck: false });
    closers.push(() => redis.disconnect());
    const findings = await checkRedis(redis, { kind: 'redis', url: service.url }, ANY_LATENCY_MS);
    const outcomes = Object.fromEntries(findings.map(({ check, outcome }) => [check, outcome]));
    expect(outcomes).to.deep.equal({
      'redis-version': 'unknown',
      persistence: 'unknown',
      eviction: 'warning',
      memory: 'unknown',
      latency: 'ok',
      clock: 'unknown',
      replication: 'ok',
    });
  });
});
