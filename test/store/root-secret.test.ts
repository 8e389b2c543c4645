import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { assert, expect } from 'chai';
import { recordAudit } from '../../src/audit/audit.ts';
import { listAudit } from '../../src/management/audit-log.ts';
import { openStore, type StoreOptions } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { auditServices } from '../support/audit-services.ts';
import { startRedis } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

const OLD = 'the first root secret, which is long enough';
const NEW = 'the second root secret, which is long enough';
const NEWEST = 'the third root secret, which is long enough';

describe('Replacing the root secret', () => {
  let dataDir: string;
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'gatehouse-secret-'));
  });
  afterEach(() => rm(dataDir, { recursive: true, force: true }));

  const open = (options: Omit<StoreOptions, 'dataDir'>) =>
    openStore({ kind: 'sqlite', file: 'gatehouse.sqlite' }, { dataDir, ...options });

  async function withStore<T>(
    options: Omit<StoreOptions, 'dataDir'>,
    use: (store: Awaited<ReturnType<typeof open>>) => Promise<T>,
  ): Promise<T> {
    const store = await open(options);
    try {
      return await use(store);
    } finally {
      await store.close();
    }
  }

  it('the audit log is complete after two replacements, and items that cannot be read leave pages quick, with a cursor', async () => {
    const now = () => 1_900_000_000;
    const record = (store: Store, event: string) =>
      recordAudit(auditServices(store, now()), { event, outcome: 'done' });
    const replace = (options: Omit<StoreOptions, 'dataDir'>) =>
      withStore(options, async (store) => {
        await record(store, 'after');
        expect((await store.rewrap.run({ waitMs: 60_000 })).remaining).to.equal(0);
      });
    await withStore({ secret: OLD }, (store) =>
      Promise.all(Array.from({ length: 1500 }, () => record(store, 'before'))),
    );
    await replace({ secret: NEW, previousSecret: OLD });
    await replace({ secret: NEWEST, previousSecret: NEW });
    await withStore({ secret: NEWEST }, async (store) => {
      const all = await store.readLog<{ event: string }>('audit:log', { after: 0, limit: 2000 });
      expect(all.map(({ value }) => value?.event)).to.deep.equal([
        ...Array.from({ length: 1500 }, () => 'before'),
        'after',
        'after',
      ]);
    });
    const db = new DatabaseSync(join(dataDir, 'gatehouse.sqlite'));
    db.exec('UPDATE log_entry SET value = CAST(substr(value, 1, 20) AS BLOB) WHERE number <= 1500');
    db.close();
    await withStore({ secret: NEWEST }, async (store) => {
      const first = await listAudit({ services: { store } }, { limit: 50 });
      expect(first.items).to.deep.equal([]);
      const second = await listAudit({ services: { store } }, { limit: 50, after: first.next });
      expect(second.items.map(({ event }) => event)).to.deep.equal(['after', 'after']);
      expect(second).to.not.have.property('next');
      const newest = await listAudit({ services: { store } }, { limit: 50, newestFirst: true });
      expect(newest.items.map(({ event }) => event)).to.deep.equal(['after', 'after']);
      expect(newest.next, 'the cursor of the next page').to.be.a('string');
    });
  });

  it('names of records survive two replacements', async () => {
    await withStore({ secret: OLD }, (store) => store.set('thing:kept', 1, 60));
    await withStore({ secret: NEW, previousSecret: OLD }, (store) =>
      store.set('thing:kept', 2, 60),
    );
    await withStore({ secret: NEWEST, previousSecret: NEW }, async (store) => {
      expect((await store.get('thing:kept'))?.value).to.equal(2);
    });
  });

  it('during a rolling replacement in two rounds, old and new processes read the values of both', async () => {
    const before = await open({ secret: OLD, previousSecret: NEW });
    const after = await open({ secret: NEW, previousSecret: OLD });
    try {
      await before.set('thing:before', 1, 60);
      await after.set('thing:after', 2, 60);
      expect((await after.get('thing:before'))?.value).to.equal(1);
      expect((await before.get('thing:after'))?.value).to.equal(2);
      await before.ping();
      await after.ping();
    } finally {
      await before.close();
      await after.close();
    }
  });

  it('opening a store with an unrelated root secret fails and says what to do', async () => {
    await withStore({ secret: OLD }, (store) => store.set('thing:1', 1, 60));
    for (const options of [{ secret: NEW }, { secret: NEW, previousSecret: NEWEST }]) {
      const error = await open(options).then(
        () => undefined,
        (thrown: Error) => thrown,
      );
      assert.match(String(error?.message), /another root secret: set GATEHOUSE_SECRET/);
      assert.match(String(error?.message), /A restored backup needs the root secret of its time/);
    }
  });

  it('the same root secret as the previous one is refused', async () => {
    const error = await open({ secret: OLD, previousSecret: OLD }).then(
      () => undefined,
      (thrown: Error) => thrown,
    );
    assert.match(String(error?.message), /GATEHOUSE_PREVIOUS_SECRET is the same/);
  });

  it('the start says how far a replacement is, and when current and previous may be exchanged', async () => {
    const notices = (options: Omit<StoreOptions, 'dataDir'>) =>
      withStore(options, (store) => Promise.resolve(store.notices.join()));
    expect(await notices({ secret: OLD })).to.equal('');
    expect(await notices({ secret: OLD, previousSecret: NEW })).to.match(/are exchanged$/);
    expect(await notices({ secret: NEW, previousSecret: OLD })).to.match(
      /run gatehouse keys rewrap$/,
    );
    expect(await notices({ secret: OLD })).to.match(/^a newer root secret opens the store too/);
    await withStore({ secret: NEW, previousSecret: OLD }, (store) =>
      store.rewrap.run({ waitMs: 60_000 }),
    );
    expect(await notices({ secret: NEW, previousSecret: OLD })).to.equal('');
  });

  it('the same root secret gives the same names after all data was lost', async () => {
    const redis = await startRedis();
    const address = { kind: 'redis', url: redis.url } as const;
    const running = await openStore(address, { secret: OLD, dataDir });
    try {
      await running.set('thing:lost', 1, 60);
      await redis.stop();
      const empty = await startRedis({ port: redis.port });
      try {
        await until('the store to recover', () =>
          running.ping().then(
            () => true,
            () => false,
          ),
        );
        const second = await openStore(address, { secret: OLD, dataDir });
        await running.set('thing:shared', 2, 60);
        expect((await second.get('thing:shared'))?.value).to.equal(2);
        expect(await second.get('thing:lost')).to.equal(undefined);
        await second.close();
      } finally {
        await running.close();
        await empty.stop();
      }
    } finally {
      rmSync(dataDir, { recursive: true, force: true });
    }
  });
});
