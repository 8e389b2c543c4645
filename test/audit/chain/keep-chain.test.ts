// When checkpoints are made, and how long their lists stay.
import { expect } from 'chai';
import { auditItem, storeAudit } from '../../../src/audit/audit.ts';
import { trimAudit } from '../../../src/audit/audit-keep.ts';
import { readList } from '../../../src/audit/chain/checkpoint-lists.ts';
import { keepChain } from '../../../src/audit/chain/keep-chain.ts';
import { makeCheckpoint } from '../../../src/audit/chain/make-checkpoint.ts';
import { openAuditMemory } from '../../../src/audit/chain/rollback.ts';
import type { BackgroundLoop } from '../../../src/background-loop.ts';
import { type Store, StoreUnavailable } from '../../../src/store/store.ts';
import { STORES } from '../../support/system.ts';
import { until } from '../../support/until.ts';
import { type ChainLog, openChainLog } from './chain-log.ts';

const DAY = 86_400;

for (const kind of STORES)
  describe(`Checkpoints of a running process, on ${kind}`, () => {
    let log: ChainLog;
    let running: BackgroundLoop | undefined;
    beforeEach(async () => {
      told = [];
      running = undefined;
      log = await openChainLog(kind);
    });
    afterEach(async () => {
      await running?.stop();
      await log.close();
    });

    let told: boolean[] = [];
    const services = () => ({
      ...log.services,
      metrics: {
        auditEvent: () => undefined,
        auditReach: () => undefined,
        auditVerified: (ok: boolean) => void told.push(ok),
      },
    });
    const start = () => {
      running = keepChain(services, openAuditMemory());
    };
    const made = async () => (await log.items()).filter(({ event }) => event === 'checkpoint');
    const untilMade = (count: number) =>
      until(`${count} checkpoints`, async () => (await made()).length === count);

    it('one is made at 1,000 new items, and one a day without new items', async () => {
      await log.append(1000);
      start();
      await untilMade(1);
      log.advance(DAY);
      await untilMade(2);
      expect(await log.verify()).to.include({ ok: true, checkpoints: 2 });
    });

    it('items that the process stored itself are not read again, however many come in a second', async () => {
      const { digests } = openAuditMemory();
      digests.isUsed = true;
      let read = 0;
      const counting: Store = {
        ...log.services.store,
        async readLog(...args) {
          const found = await log.services.store.readLog<never>(...args);
          read += found.length;
          return found;
        },
      };
      const storing = { ...log.services, store: counting, digests };
      for (let batch = 0; batch < 14; batch += 1) {
        const added = Array.from({ length: 500 }, () => ({
          item: auditItem(storing, { event: 'call', outcome: 'answered' }),
          part: 'bulk' as const,
        }));
        await storeAudit(storing, added);
      }
      for (let checkpoint = 1; checkpoint <= 8; checkpoint += 1) await makeCheckpoint(storing);
      // Each checkpoint but the last is an item that the next one covers, and the oldest item is looked for once.
      expect(read).to.equal(7 + 1);
      expect(await log.verify()).to.include({ ok: true, checkpoints: 8 });
    });

    it('a process tells at once what another one verifies meanwhile', async () => {
      const { store, now } = log.services;
      const verified = { at: now() - DAY, ok: true, checkpoints: 0, problems: [] };
      await store.set('audit-verification:last', verified, Infinity);
      await store.add('audit-verification:lock', true, 3600);
      start();
      await until('it to look', () => told.length > 0);
      await store.set('audit-verification:last', { ...verified, at: now(), ok: false }, Infinity);
      await until('it to tell', () => told.includes(false));
    });

    it('a verification that fails is repeated after five seconds', async () => {
      const { store } = log.services;
      let failures = 0;
      const flaky: Store = {
        ...store,
        add: async (key, value, ttl) => {
          if (key !== 'audit-verification:lock' || failures > 0) return store.add(key, value, ttl);
          failures += 1;
          throw new StoreUnavailable('the store is slow');
        },
      };
      running = keepChain(() => ({ ...services(), store: flaky }), openAuditMemory());
      await until('it to fail', () => failures > 0);
      log.advance(5);
      await until('it to tell', () => told.includes(true));
    });

    it('the list of a checkpoint goes when the last of its items is trimmed, and the log stays verifiable', async () => {
      const kept = {
        keep: DAY,
        keepUndelivered: 0,
        keepCalls: { time: DAY, items: 1000 },
        delivered: async () => [],
      };
      for (let count = 0; count < 10; count += 1) {
        await log.append(2);
        await log.checkpoint();
      }
      log.advance(2 * DAY);
      await trimAudit(services(), kept, 'lasting');
      const [oldest] = await log.items();
      const { number = 0 } = oldest ?? {};
      // Old lists are looked for at every twentieth checkpoint.
      for (let newest = 0; newest < 19;) {
        await log.append(1);
        ({ checkpoint: newest } = await log.checkpoint());
      }
      await log.append(1);
      log.advance(60);
      start();
      await until('the older lists to go', async () => {
        const lists = await Promise.all([...Array(20).keys()].map((n) => readList(log.store, n)));
        const { first, last } = lists.find((list) => list !== undefined)?.checkpoint ?? {};
        return first && last && first.number <= number && number <= last.number;
      });
      expect(number).to.be.above(20);
      expect(await log.verify()).to.include({ ok: true });
    });
  });
