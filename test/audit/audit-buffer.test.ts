import { mock } from 'node:test';
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import {
  type AuditBuffer,
  openAuditBuffer,
  type WaitingItem,
} from '../../src/audit/audit-buffer.ts';
import { readAuditAfter, readSealedAfter } from '../../src/audit/audit-log.ts';
import { readAuditReach } from '../../src/audit/audit-reach.ts';
import { itemDigest } from '../../src/audit/chain/sealed-item.ts';
import { openStoredDigests } from '../../src/audit/chain/stored-digests.ts';
import { createLogger } from '../../src/observability/logger.ts';
import type { DropReason } from '../../src/observability/labels.ts';
import type { OpenedStore } from '../../src/store/open.ts';
import { type LogEntry, type Store, StoreFull, StoreUnavailable } from '../../src/store/store.ts';
import { auditServices } from '../support/audit-services.ts';
import { openSystemStore } from '../support/system-store.ts';
import { until } from '../support/until.ts';
import { onEachStore } from '../support/system.ts';

const NOW = 2_000_000_000;
const KEEP_TIME = 90 * 86_400;
/** As many as wait at most. */
const MAX_WAITING = 10_000;

onEachStore('Items of the audit log that nobody waits for', (system) => {
  let store: OpenedStore;
  before(async () => {
    ({ store } = await openSystemStore(system()));
  });
  after(() => store.close());

  const answered = (grantId: string, part: WaitingItem['part'] = 'bulk'): WaitingItem => ({
    at: NOW,
    item: { event: 'call', grantId, outcome: 'answered' },
    part,
  });
  const refused = (grantId: string, reason: string): WaitingItem => ({
    at: NOW,
    item: { event: 'call', grantId, outcome: 'refused', reason },
    part: 'bulk',
  });

  const bufferOn = (failing: Store, now = () => NOW) =>
    openAuditBuffer({
      services: {
        ...auditServices(failing, NOW),
        now,
        metrics: { auditEvent: () => undefined, auditDropped: () => undefined },
        logger: createLogger('silent'),
      },
      hasRoom: () => true,
      keepTime: () => KEEP_TIME,
    });

  /** What `act` adds to the log, and what the metrics count, until the buffer is closed. */
  async function stored(act: (buffer: AuditBuffer) => void, hasRoom = true) {
    const dropped: [DropReason, number][] = [];
    const metrics = {
      auditEvent: () => undefined,
      auditDropped: (reason: DropReason, count: number) => void dropped.push([reason, count]),
    };
    const last = (await readAuditAfter(store, 0, 100_000)).at(-1)?.number ?? 0;
    const buffer = openAuditBuffer({
      services: { ...auditServices(store, NOW), metrics, logger: createLogger('silent') },
      hasRoom: () => hasRoom,
      keepTime: () => KEEP_TIME,
    });
    act(buffer);
    await buffer.close();
    const items = (await readAuditAfter(store, last, 100_000))
      .map(({ item }) => item)
      .filter((item) => item?.event !== 'checkpoint');
    return { items, dropped };
  }

  it('LOG-14 of refused calls of one connection with one reason, the first is an item, and one more has the number of the others', async () => {
    const { items } = await stored((buffer) => {
      for (let n = 0; n < 20; n += 1)
        buffer.addRefused('one forbidden', refused('one', 'forbidden'));
      buffer.addRefused('one not_found', refused('one', 'not_found'));
      buffer.addRefused('two forbidden', refused('two', 'forbidden'));
    });
    expect(
      items.map((item) => [item?.grantId, item?.reason, item?.count, item?.outcome]),
    ).to.deep.equal([
      ['one', 'forbidden', undefined, 'refused'],
      ['one', 'not_found', undefined, 'refused'],
      ['two', 'forbidden', undefined, 'refused'],
      ['one', 'forbidden', 19, 'refused'],
    ]);
    expect(new Set(items.map((item) => item?.id))).to.have.lengthOf(items.length);
  });

  it('LOG-14 the item with the number of further refused calls is stored also when the first one was stored before', async () => {
    const last = (await readAuditAfter(store, 0, 100_000)).at(-1)?.number ?? 0;
    const added = async () =>
      (await readAuditAfter(store, last, 100_000))
        .map(({ item }) => item)
        .filter((item) => item?.grantId === 'three');
    const buffer = bufferOn(store);
    buffer.addRefused('three forbidden', refused('three', 'forbidden'));
    await until('the first is stored', async () => (await added()).length === 1);
    buffer.addRefused('three forbidden', refused('three', 'forbidden'));
    buffer.addRefused('three forbidden', refused('three', 'forbidden'));
    await buffer.close();
    const items = await added();
    expect(items.map((item) => item?.count)).to.deep.equal([undefined, 2]);
    expect(new Set(items.map((item) => item?.id))).to.have.lengthOf(2);
  });

  const addAtAnyMoment = async (isClosedBefore: boolean): Promise<() => Promise<number[]>> => {
    const last = (await readAuditAfter(store, 0, 100_000)).at(-1)?.number ?? 0;
    const moments = Array.from({ length: 40 }, (_, moment) => moment);
    const addAt = async (moment: number) => {
      const appended = Promise.withResolvers<void>();
      const telling: Store = {
        ...store,
        async appendLog(...each) {
          const places = await store.appendLog(...each);
          appended.resolve();
          return places;
        },
      };
      const buffer = bufferOn(telling);
      buffer.add(answered('ends'));
      const closed = isClosedBefore ? buffer.close() : undefined;
      await appended.promise;
      for (let passed = 0; passed < moment; passed += 1) await undefined;
      buffer.add(answered(`at ${moment}`));
      await (closed ?? buffer.close());
    };
    await Promise.all(moments.map(addAt));
    return async () => {
      const found = (await readAuditAfter(store, last, 100_000)).map(({ item }) => item?.grantId);
      return moments.filter((moment) => !found.includes(`at ${moment}`));
    };
  };

  it('LOG-14 an item that comes at any moment while a batch ends is stored before the buffer is closed', async () => {
    const missing = await addAtAnyMoment(false);
    expect(await missing()).to.deep.equal([]);
  });

  it('LOG-14 an item that comes at any moment while the buffer is closed is stored', async () => {
    const missing = await addAtAnyMoment(true);
    await until('all are stored', async () => (await missing()).length === 0);
  });

  describe('that come while others are written', () => {
    /** Timers of one duration fire in the order in which they were set, so that a delay of this one ends after that of the buffer. */
    const FLUSH_MS = 500;
    /** As many as are written at once. */
    const BATCH_ITEMS = 500;
    let batches: unknown[][];
    let written: ((error?: Error) => void)[];
    let buffer: AuditBuffer;

    beforeEach(async () => {
      [batches, written] = [[], []];
      const slow: Store = {
        ...store,
        appendLog: (_key, entries) => {
          batches.push(entries.map(({ value }) => (value as { grantId?: string }).grantId));
          const appended = { first: 1, epoch: 'epoch' };
          return new Promise((resolve, reject) =>
            written.push((error) => (error ? reject(error) : resolve(appended))),
          );
        },
      };
      buffer = bufferOn(slow);
      buffer.add(answered('first'));
      await delay(FLUSH_MS);
    });

    const endWrite = async (error?: Error) => {
      written.shift()?.(error);
      await nextTurn();
    };

    it('LOG-14 wait for more, because a few cost as much as a batch', async () => {
      buffer.add(answered('meanwhile'));
      await endWrite();
      buffer.add(answered('afterwards'));
      expect(batches).to.deep.equal([['first']]);
      await delay(FLUSH_MS);
      expect(batches).to.deep.equal([['first'], ['meanwhile', 'afterwards']]);
    });

    it('LOG-14 are written next if they have waited as long as others', async () => {
      buffer.add(answered('meanwhile'));
      await delay(FLUSH_MS);
      buffer.add(answered('later'));
      await endWrite();
      expect(batches).to.deep.equal([['first'], ['meanwhile', 'later']]);
    });

    it('LOG-14 are written next if they are a batch', async () => {
      for (let n = 0; n < BATCH_ITEMS; n += 1) buffer.add(answered('one of many'));
      await endWrite();
      expect(batches.map(({ length }) => length)).to.deep.equal([1, BATCH_ITEMS]);
    });

    it('LOG-14 are written before the buffer is closed, and what comes after that is written too', async () => {
      buffer.add(answered('before'));
      const closed = buffer.close();
      await endWrite();
      buffer.add(answered('at the end'));
      await endWrite();
      await endWrite();
      await closed;
      buffer.add(answered('after it'));
      await delay(FLUSH_MS);
      expect(batches).to.deep.equal([['first'], ['before'], ['at the end'], ['after it']]);
    });

    it('LOG-14 are not written after they were counted as dropped, because the buffer was closed', async () => {
      const error = new StoreUnavailable(new Error('no answer'));
      buffer.add(answered('before'));
      const closed = buffer.close();
      await endWrite(error);
      await endWrite(error);
      await closed;
      buffer.add(answered('after it'));
      await delay(FLUSH_MS);
      expect(batches).to.deep.equal([['first'], ['first'], ['after it']]);
    });
  });

  it('have no place in the log before they are stored, also those with the number of more refused calls', async () => {
    const sent: (number | undefined)[] = [];
    const watched: Store = {
      ...store,
      appendLog(key, entries, token) {
        for (const { value } of entries) sent.push((value as { number?: number }).number);
        return store.appendLog(key, entries, token);
      },
    };
    const buffer = bufferOn(watched);
    buffer.addRefused('four forbidden', refused('four', 'forbidden'));
    await until('the first is stored', () => sent.length === 1);
    buffer.addRefused('four forbidden', refused('four', 'forbidden'));
    await buffer.close();
    expect(sent).to.deep.equal([undefined, undefined]);
  });

  it('of a batch that is sent again because the answer was lost, no digest is kept that differs from the stored one', async () => {
    let attempts = 0;
    const losing: Store = {
      ...store,
      async appendLog(...each) {
        const appended = await store.appendLog(...each);
        attempts += 1;
        if (attempts === 1) throw new StoreUnavailable(new Error('the answer was lost'));
        return appended;
      },
    };
    const digests = openStoredDigests();
    digests.isUsed = true;
    const last = (await readSealedAfter(store, 0, 100_000)).at(-1)?.number ?? 0;
    const buffer = openAuditBuffer({
      services: {
        ...auditServices(losing, NOW),
        metrics: { auditEvent: () => undefined, auditDropped: () => undefined },
        digests,
        logger: createLogger('silent'),
      },
      hasRoom: () => true,
      keepTime: () => KEEP_TIME,
    });
    const { item, ...rest } = answered('again');
    buffer.add({ ...rest, item: { ...item, account: 'ada', address: '192.0.2.1' } });
    await until('the second attempt', () => attempts === 2);
    await buffer.close();
    const found = (await readSealedAfter(store, last, 100)).filter(
      (one) => one.item?.grantId === 'again',
    );
    expect(found).to.have.length(1);
    for (const { number, item: sealed } of found) {
      expect(sealed).to.have.property('salt');
      const kept = digests.get(number)?.digest;
      if (sealed) expect(kept ?? itemDigest(sealed)).to.equal(itemDigest(sealed));
    }
  });

  it('LOG-15 a batch whose answer was lost is stored once, also if the store does not know it any more', async () => {
    let attempts = 0;
    const forgetful: Store = {
      ...store,
      tokenMs: 0,
      async appendLog(key, entries) {
        const appended = await store.appendLog(key, entries);
        attempts += 1;
        if (attempts === 1) throw new StoreUnavailable(new Error('the answer was lost'));
        return appended;
      },
    };
    const last = (await readAuditAfter(store, 0, 100_000)).at(-1)?.number ?? 0;
    const buffer = bufferOn(forgetful);
    buffer.add(answered('late'));
    await until('the first attempt', () => attempts === 1);
    buffer.add(answered('later'));
    await buffer.close();
    const items = (await readAuditAfter(store, last, 100)).map(({ item }) => item?.grantId);
    expect(items.filter((grantId) => grantId === 'late')).to.have.lengthOf(1);
    expect(items.filter((grantId) => grantId === 'later')).to.have.lengthOf(1);
  });

  for (const [what, error, expected] of [
    ['fails', new StoreUnavailable(new Error('no answer')), 1],
    ['refuses writes because it is full', new StoreFull(new Error('OOM')), 0],
  ] as const)
    it(`LOG-15 while a store that forgets batches ${what}, the log is searched at most once for the same batch`, async () => {
      let [attempts, reads] = [0, 0];
      // Items of a store of its own: the system adds checkpoints.
      const stored: LogEntry<unknown>[] = [{ number: 1, epoch: 'e', value: undefined }];
      const failing: Store = {
        ...store,
        tokenMs: 0,
        async appendLog() {
          attempts += 1;
          throw error;
        },
        lastInLog: async () => stored.length,
        async readLog<T>() {
          reads += 1;
          return stored as LogEntry<T>[];
        },
      };
      const buffer = bufferOn(failing);
      buffer.add(answered('failing'));
      await until('further attempts', () => attempts === 4);
      expect(reads).to.equal(expected);
      await buffer.close();
    });

  it('a store without room gets no calls of levels that are not recorded, other items, and one about what is missing', async () => {
    const { items, dropped } = await stored((buffer) => {
      for (let n = 0; n < 3; n += 1) buffer.add(answered('full'));
      buffer.add(answered('full', 'lasting'));
    }, false);
    expect(items).to.have.lengthOf(2);
    expect(items[0]).to.include({ event: 'call', grantId: 'full' });
    expect(items[1]).to.include({ event: 'audit_dropped', reason: 'store_full', count: 3 });
    expect(dropped).to.deep.equal(Array.from({ length: 3 }, () => ['store_full', 1]));
  });

  it('calls that no longer fit into the memory are counted in an item, and the end of a call always fits', async () => {
    const { items, dropped } = await stored((buffer) => {
      for (let n = 0; n < MAX_WAITING + 5; n += 1) buffer.add(answered('busy', 'lasting'));
      buffer.add({ ...answered('ends', 'lasting'), completes: { number: 1 } });
    });
    expect(items).to.have.lengthOf(MAX_WAITING + 2);
    expect(items.at(-2)).to.include({ grantId: 'ends' });
    expect(items.at(-1)).to.include({ event: 'audit_dropped', reason: 'buffer_full', count: 5 });
    expect(dropped).to.have.lengthOf(5);
    // Calls are complete from then on.
    expect(await readAuditReach(auditServices(store, NOW + 60), KEEP_TIME)).to.equal(60);
  });

  describe('how far back calls are complete', () => {
    beforeEach(() => mock.timers.enable({ apis: ['setInterval'] }));
    afterEach(() => mock.timers.reset());

    /** Drops a call at `at`, and `onNoting` is called each time that it is to be noted. */
    function dropping(at: number, onNoting: (time: number, dropAt: (at: number) => void) => void) {
      let [now, times] = [at, 0];
      const noting: Store = {
        ...store,
        appendLog: async () => ({ first: 1, epoch: 'one' }),
        async update(...each) {
          times += 1;
          onNoting(times, dropAt);
          return store.update(...each);
        },
      };
      const buffer = bufferOn(noting, () => now);
      const dropAt = (time: number) => {
        now = time;
        for (let n = 0; n <= MAX_WAITING; n += 1) buffer.add(answered('many', 'lasting'));
        mock.timers.tick(60_000);
      };
      dropAt(at);
      return buffer;
    }
    const reach = () => readAuditReach(auditServices(store, NOW + 60), KEEP_TIME);

    it('LOG-14 is noted again after a failure', async () => {
      const buffer = dropping(NOW + 10, (time) => {
        if (time === 1) throw new StoreUnavailable(new Error('no answer'));
      });
      await until('the second attempt', async () => (await reach()) === 50);
      await buffer.close();
    });

    it('LOG-14 is noted for calls that are dropped while it is noted', async () => {
      const buffer = dropping(NOW + 20, (time, dropAt) => {
        if (time === 1) dropAt(NOW + 30);
      });
      await until('the later time', async () => (await reach()) === 30);
      await buffer.close();
    });
  });
});
