// The messages that processes exchange for a reload, over a store in memory.
import { createSecretKey } from 'node:crypto';
import { expect } from 'chai';
import { createLogger } from '../../src/observability/logger.ts';
import {
  openReloads,
  ReloadRefused,
  type Reloads,
  type ReloadTimes,
} from '../../src/reload/reloads.ts';
import { loadSettings } from '../../src/settings/load.ts';
import type { Settings } from '../../src/settings/settings.ts';
import { KEEP, type Store, StoreUnavailable } from '../../src/store/store.ts';
import { until } from '../support/until.ts';

const TIMES: ReloadTimes = { answer: 10_000, announce: 100, silence: 10_000, settle: 1 };

/** What reloads use of a store. */
function memoryStore() {
  const values = new Map<string, { value: unknown }>();
  const listeners = new Set<(text: string) => void>();
  const store = {
    get: async (key: string) => values.get(key),
    async add(key: string, value: unknown) {
      if (values.has(key)) return false;
      values.set(key, { value });
      return true;
    },
    async update(
      key: string,
      next: (value: unknown) => { value: unknown } | undefined | typeof KEEP,
    ) {
      const after = next(values.get(key)?.value);
      if (after === undefined) values.delete(key);
      else if (after !== KEEP) values.set(key, after);
      return values.get(key);
    },
    delete: async (key: string) => void values.delete(key),
    async publish(_channel: string, text: string) {
      for (const listener of listeners) listener(text);
    },
    async subscribe(_channel: string, listener: (text: string) => void) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
  return { store: store as unknown as Store, values };
}

type Process = {
  reloads: Reloads;
  name: () => string;
  levels: () => Settings['levels'];
  /** How many hosts are prepared. */
  open: () => number;
};

describe('A reload of several processes, message by message', () => {
  let file: Settings;
  let started: Process[];
  beforeEach(() => {
    const secrets = {
      GATEHOUSE_SECRET: 'a root secret that all processes of the tests share',
      GATEHOUSE_MANAGEMENT_KEY: 'management-key-of-the-tests-0123456789',
    };
    file = { ...loadSettings(secrets, { makesSecrets: false }), productName: 'Before' };
    started = [];
  });
  afterEach(() => Promise.all(started.map(({ reloads }) => reloads.stop())));

  async function start(
    store: Store,
    {
      startsWith = file,
      read = () => file,
      prepare = async () => undefined as void,
      discard = async () => undefined as void,
    } = {},
  ): Promise<Process> {
    let current = startsWith;
    let open = 0;
    const reloads = await openReloads({
      read,
      secretVariables: () => [],
      current: () => current,
      store,
      digestKey: createSecretKey(Buffer.alloc(32)),
      logger: createLogger('silent'),
      metrics: { settings: () => undefined },
      now: () => Date.now() / 1000,
      times: TIMES,
      async prepare(settings) {
        open += 1;
        await prepare();
        return {
          commit() {
            open -= 1;
            current = settings;
          },
          async discard() {
            open -= 1;
            await discard();
          },
        };
      },
    });
    const each = {
      reloads,
      name: () => current.productName,
      levels: () => current.levels,
      open: () => open,
    };
    started.push(each);
    return each;
  }

  const reloadWith = async (by: Process, changes: Partial<Settings>) => {
    file = { ...file, ...changes };
    return by.reloads.run({ dryRun: false });
  };

  it('a reload changes all processes although the store lost the number of the last one', async () => {
    const { store, values } = memoryStore();
    const [one, other] = [await start(store), await start(store)];
    await reloadWith(one, { productName: 'first' });
    await reloadWith(one, { productName: 'second' });
    values.clear();
    const last = await start(store);
    await reloadWith(last, { productName: 'third' });
    for (const each of [one, other, last]) {
      expect(each.name()).to.equal('third');
      await each.reloads.requireFollowed();
    }
  });

  it('a store that does not answer while hosts are opened is no error of the settings', async () => {
    const { store } = memoryStore();
    const outage = () => Promise.reject(new StoreUnavailable(new Error('no answer')));
    const one = await start(store, { prepare: outage });
    const refusal = await reloadWith(one, { productName: 'After' }).catch((error) => error);
    expect(refusal).to.include({ kind: 'unavailable', message: 'the store cannot be reached' });
    expect(one.name()).to.equal('Before');
  });

  it('a process that read its settings before a reload, and started after it, follows it', async () => {
    const { store } = memoryStore();
    const before = file;
    await reloadWith(await start(store), { productName: 'changed' });
    const late = await start(store, { startsWith: before });
    await until('the late process to follow', () => late.name() === 'changed');
    await late.reloads.requireFollowed();
  });

  it('a process that stops while it leads a reload changes nothing, and leaves nothing open', async () => {
    const { store } = memoryStore();
    const prepared = Promise.withResolvers<void>();
    const one = await start(store, { prepare: () => prepared.promise });
    const other = await start(store);
    const reload = reloadWith(one, { productName: 'changed' }).catch((error: unknown) => error);
    await until('the settings to be checked', () => one.open() === 1);
    const stopped = one.reloads.stop();
    prepared.resolve();
    await stopped;
    expect(await reload).to.be.instanceOf(ReloadRefused);
    expect([one.open(), one.name(), other.name()]).to.deep.equal([0, 'Before', 'Before']);
  });

  it('a process that stops during a reload is not waited for', async () => {
    const { store } = memoryStore();
    const prepared = Promise.withResolvers<void>();
    const one = await start(store);
    const other = await start(store, { prepare: () => prepared.promise });
    const startedMs = performance.now();
    const reload = reloadWith(one, { productName: 'changed' });
    await until('the settings to be checked', () => other.open() === 1);
    const stopped = other.reloads.stop();
    expect(await reload).to.deep.include({ changed: ['productName'], unanswered: [] });
    expect(performance.now() - startedMs).to.be.below(TIMES.answer / 2);
    prepared.resolve();
    await stopped;
    expect([one.name(), other.open()]).to.deep.equal(['changed', 0]);
  });

  it('hosts that do not close after a dry run prevent no later reload', async () => {
    const { store } = memoryStore();
    const discard = () => Promise.reject(new Error('the hosts do not close'));
    const [one, other] = [await start(store, { discard }), await start(store, { discard })];
    await one.reloads.run({ dryRun: true });
    await reloadWith(one, { productName: 'changed' });
    expect([one.name(), other.name()]).to.deep.equal(['changed', 'changed']);
  });

  it('a dry run reads again what differs, until it stays the same, and a reload reads always twice', async () => {
    const { store } = memoryStore();
    let reads = 0;
    let next = ['Before'];
    const read = () => {
      reads += 1;
      return { ...file, productName: (next.length > 1 ? next.shift() : next[0]) ?? '' };
    };
    const { reloads } = await start(store, { read });
    const readsOf = async (dryRun: boolean) => {
      const before = reads;
      const { changed } = await reloads.run({ dryRun });
      return { changed, reads: reads - before };
    };
    expect(await readsOf(true)).to.deep.equal({ changed: [], reads: 1 });
    next = ['Half', 'Whole'];
    expect(await readsOf(true)).to.deep.equal({ changed: ['productName'], reads: 3 });
    await readsOf(false);
    expect(await readsOf(false)).to.deep.equal({ changed: [], reads: 2 });
  });

  it('a dry run needs not wait for a reload in progress, and disturbs none', async () => {
    const { store } = memoryStore();
    const first = Promise.withResolvers<void>();
    let preparations = 0;
    const one = await start(store);
    const prepare = async () => void (++preparations === 1 && (await first.promise));
    const other = await start(store, { prepare });
    const reload = reloadWith(one, { productName: 'changed' });
    await until('the settings to be checked', () => preparations === 1);
    const dryRuns = [one, other, one].map(({ reloads }) => reloads.run({ dryRun: true }));
    for (const { changed } of await Promise.all(dryRuns))
      expect(changed).to.deep.equal(['productName']);
    expect([one.name(), other.name()]).to.deep.equal(['Before', 'Before']);
    first.resolve();
    expect(await reload).to.deep.include({ changed: ['productName'], unanswered: [] });
    const states = [one, other].map((each) => [each.name(), each.open()]);
    expect(states).to.deep.equal([
      ['changed', 0],
      ['changed', 0],
    ]);
  });

  it('processes with the next and the previous root secret agree, and see when other secrets differ', async () => {
    const { store } = memoryStore();
    const next = (changes: Partial<Settings>) => ({
      ...file,
      secret: 'the root secret that replaces the one before',
      previousSecret: file.secret,
      ...changes,
    });
    const one = await start(store);
    let changes: Partial<Settings> = {};
    const other = await start(store, { startsWith: next({}), read: () => next(changes) });
    await until('the processes to know each other', () => one.reloads.differing().length === 0);
    changes = { productName: 'changed' };
    expect(await reloadWith(one, changes)).to.deep.include({ changed: ['productName'] });
    expect([one.name(), other.name()]).to.deep.equal(['changed', 'changed']);
    changes = { ...changes, managementKey: 'another-management-key-of-one-process-0123' };
    const refusal = await other.reloads.run({ dryRun: true }).catch((error: unknown) => error);
    expect(refusal).to.include({ kind: 'secrets' });
    expect(String(refusal)).to.include('GATEHOUSE_MANAGEMENT_KEY');
  });

  it('another order of the levels is a change', async () => {
    const { store } = memoryStore();
    const [one, other] = [await start(store), await start(store)];
    const { changed } = await reloadWith(one, { levels: file.levels.toReversed() });
    expect(changed).to.deep.equal(['levels']);
    expect(other.levels()).to.deep.equal(one.levels());
  });

  it('processes with another order of the levels differ', async () => {
    const { store } = memoryStore();
    const one = await start(store);
    await start(store, { startsWith: { ...file, levels: file.levels.toReversed() } });
    await until('the processes to differ', () => one.reloads.differing().length === 1);
  });
});
