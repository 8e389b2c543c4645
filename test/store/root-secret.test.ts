import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

describe('Root secret rotation', () => {
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

  it('values of the previous root secret are readable, and are written with the new one', async () => {
    await withStore({ secret: OLD }, async (store) => {
      await store.set('thing:untouched', 'written with the first secret', 60);
      await store.set('thing:touched', 'written with the first secret', 60);
    });
    await withStore({ secret: NEW, previousSecret: OLD }, async (store) => {
      expect((await store.get('thing:untouched'))?.value).to.equal('written with the first secret');
      await store.update('thing:touched', (value) => ({
        value: `${String(value)}, and again`,
        ttl: 60,
      }));
    });
    await withStore({ secret: NEW }, async (store) => {
      expect((await store.get('thing:touched'))?.value).to.equal(
        'written with the first secret, and again',
      );
      expect(await store.get('thing:untouched')).to.equal(undefined);
    });
  });

  it('without the previous root secret, audit entries from before the rotation are hidden and later ones are not', async () => {
    const recorded = async (store: Store, newestFirst: boolean) => {
      const entries = await store.range<string>('stream:1', { limit: 2, newestFirst });
      return entries.map(({ value }) => value);
    };
    await withStore({ secret: OLD }, (store) => store.append('stream:1', 'before', 60));
    await withStore({ secret: NEW, previousSecret: OLD }, async (store) => {
      await store.append('stream:1', 'after', 60);
      expect(await recorded(store, true)).to.deep.equal(['after', 'before']);
    });
    await withStore({ secret: NEW }, async (store) => {
      expect(await recorded(store, true)).to.deep.equal(['after', undefined]);
      expect(await recorded(store, false)).to.deep.equal([undefined, 'after']);
    });
  });

  it('the audit log with undecryptable entries still returns pages quickly, with a cursor', async () => {
    const now = () => 1_900_000_000;
    const record = (store: Store, event: string) =>
      recordAudit(auditServices(store, now()), { event, outcome: 'done' });
    await withStore({ secret: OLD }, (store) =>
      Promise.all(Array.from({ length: 1500 }, () => record(store, 'before'))),
    );
    await withStore({ secret: NEW, previousSecret: OLD }, (store) => record(store, 'after'));
    await withStore({ secret: NEW }, async (store) => {
      const first = await listAudit({ services: { store } }, { limit: 50 });
      expect(first.items).to.deep.equal([]);
      const second = await listAudit({ services: { store } }, { limit: 50, after: first.next });
      expect(second.items.map(({ event }) => event)).to.deep.equal(['after']);
      expect(second).to.not.have.property('next');
      const newest = await listAudit({ services: { store } }, { limit: 50, newestFirst: true });
      expect(newest.items.map(({ event }) => event)).to.deep.equal(['after']);
      expect(newest.next, 'the cursor of the next page').to.be.a('string');
    });
  });

  it('the name key survives two rotations', async () => {
    await withStore({ secret: OLD }, (store) => store.set('thing:kept', 1, 60));
    await withStore({ secret: NEW, previousSecret: OLD }, (store) =>
      store.set('thing:kept', 2, 60),
    );
    await withStore({ secret: NEWEST, previousSecret: NEW }, async (store) => {
      expect((await store.get('thing:kept'))?.value).to.equal(2);
    });
  });

  it('during a rolling rotation, old and new processes read values of both', async () => {
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
    }
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
