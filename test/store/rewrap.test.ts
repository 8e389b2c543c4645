import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { assert } from 'chai';
import { Redis } from 'ioredis';
import { openRedis } from '../../src/store/redis.ts';
import { openSqlite } from '../../src/store/sqlite.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { databaseAt, expiriesIn } from './rewrap-database.ts';
import { BOTH, type Database, NEW, OLD, rewrapContract } from './rewrap-contract.ts';
import { createStoreOfVersion1 } from './version-1-store.ts';
import { rewrapAll, watchRewrapping } from './watch-rewrapping.ts';
import { STORE_TIMEOUTS } from '../../src/store/timeout.ts';
import { PATIENT_TIMEOUTS } from '../support/scale-out/patient-timeouts.ts';

const DONE = /no record is encrypted with older keys any more/;

describe('RTS-01 RTS-02 RTS-03 The root secret of a store in SQLite', () => {
  let dataDir: string;
  const file = () => join(dataDir, 'store.sqlite');

  async function start(): Promise<Database> {
    dataDir = await mkdtemp(join(tmpdir(), 'rewrap-'));
    const opened = databaseAt({ kind: 'sqlite', file: 'store.sqlite' }, dataDir, {
      openBytes: async () => openSqlite(file()),
      async expiries() {
        const db = new DatabaseSync(file(), { readOnly: true });
        const rows = db
          .prepare('SELECT name, expires FROM entry UNION ALL SELECT name, expires FROM member_set')
          .all();
        db.close();
        return new Map(rows.map(({ name, expires }) => [String(name), Number(expires)]));
      },
    });
    return {
      ...opened,
      async close() {
        await opened.close();
        await rm(dataDir, { recursive: true });
      },
    };
  }

  const database = rewrapContract(start);

  it('re-encryption waits while another process locks the file', async () => {
    const before = await createStoreOfVersion1(await database().openBytes(), OLD);
    await before.set('thing:1', 'kept', 600);
    const store = await database().open(BOTH);
    const other = new DatabaseSync(file());
    other.exec('BEGIN IMMEDIATE');
    const watched = watchRewrapping(store);
    const { level } = await watched.line(/interrupted/);
    assert.equal(level, 'warn');
    other.exec('COMMIT');
    other.close();
    await watched.line(DONE);
    await watched.stop();
    const after = await database().open({ secret: NEW });
    assert.equal((await after.get('thing:1'))?.value, 'kept');
  });

  it('with new data keys, counts of limits on calls go on', async () => {
    const store = await database().open({ secret: OLD });
    const window = { name: 'connection', count: 5, seconds: 600 };
    for (let calls = 0; calls < 5; calls += 1) await store.callWindows.add([{ window, times: 1 }]);
    const watched = watchRewrapping(store, { follow: 0.01, settle: 0.1 });
    await store.rewrap.run({ newDataKeys: true, waitMs: 60_000 });
    await watched.stop();
    const after = await database().open({ secret: OLD });
    assert.equal((await after.callWindows.read(window))?.count, 5);
  });
});

describe('RTS-01 RTS-02 RTS-03 The root secret of a store in Redis', () => {
  let server: RedisServer;
  let raw: Redis;
  const address = () => ({ kind: 'redis', url: server.url }) as const;
  before(async () => {
    server = await startRedis();
    raw = new Redis(server.url);
  });
  afterEach(() => server?.kill('SIGCONT'));
  after(async () => {
    raw?.disconnect();
    await server?.stop();
  });

  async function start(): Promise<Database> {
    await raw.flushall();
    return databaseAt(address(), '/nowhere', {
      openBytes: () => openRedis(address(), undefined, { ...STORE_TIMEOUTS, ...PATIENT_TIMEOUTS }),
      expiries: () => expiriesIn([raw]),
    });
  }

  const database = rewrapContract(start);

  it('re-encryption does not change keys of other programs', async () => {
    const store = await database().open(BOTH);
    await raw.set('text', 'of another program');
    await raw.hset('hash', 'field', 'of another program');
    await raw.rpush('list', 'of another program');
    const { progress } = await rewrapAll(store);
    assert.deepEqual(progress, { total: 1, done: 1, remaining: 0, failed: 0, unreadable: [] });
    assert.equal(await raw.get('text'), 'of another program');
    assert.equal(await raw.hget('hash', 'field'), 'of another program');
    assert.deepEqual(await raw.lrange('list', 0, -1), ['of another program']);
  });

  it('re-encryption waits while the server is stalled, warns once and continues', async () => {
    const before = await createStoreOfVersion1(await database().openBytes(), OLD);
    for (let i = 0; i < 300; i++) await before.set(`thing:${i}`, i, 600);
    const watched = watchRewrapping(await database().open({ ...BOTH, timeouts: STORE_TIMEOUTS }), {
      report: 0,
      pause: 0.05,
    });
    await watched.line(/in progress/);
    server.kill('SIGSTOP');
    const { level } = await watched.line(/interrupted/);
    assert.equal(level, 'warn');
    server.kill('SIGCONT');
    await watched.line(DONE);
    await watched.stop();
    assert.lengthOf(
      watched.lines.filter((line) => line.level === 'warn'),
      1,
    );
    const after = await database().open({ secret: NEW });
    for (let i = 0; i < 300; i++) assert.equal((await after.get(`thing:${i}`))?.value, i);
  });

  it('re-encryption can be stopped while the server is stalled', async () => {
    await createStoreOfVersion1(await database().openBytes(), OLD);
    const watched = watchRewrapping(await database().open({ ...BOTH, timeouts: STORE_TIMEOUTS }));
    server.kill('SIGSTOP');
    await watched.stop();
  });
});
