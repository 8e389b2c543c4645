import { expect } from 'chai';
import { type AuditItem, auditItem, storeAudit } from '../../src/audit/audit.ts';
import { type AuditBlocks, openAuditBlocks } from '../../src/audit/audit-blocks.ts';
import { auditIndex, type TermKind } from '../../src/audit/audit-log.ts';
import { type AuditFilters, searchAudit } from '../../src/audit/audit-search.ts';
import { trimAudit } from '../../src/audit/audit-keep.ts';
import { createLogger } from '../../src/observability/logger.ts';
import type { OpenedStore } from '../../src/store/open.ts';
import type { LogPart } from '../../src/store/store.ts';
import { auditServices } from '../support/audit-services.ts';
import { openSystemStore } from '../support/system-store.ts';
import { onEachStore } from '../support/system.ts';
import { until } from '../support/until.ts';

const START = 2_000_000_000;
const EVERYTHING = { since: -Infinity, until: Infinity, terms: [] };

onEachStore('The index of the audit log in memory', (system) => {
  let store: OpenedStore;
  let auditBlocks: AuditBlocks;
  before(async () => {
    ({ store } = await openSystemStore(system()));
    const started: AuditItem[] = [];
    for (let n = 0; n < 12; n += 1) {
      await record('bulk', n, 100);
      started.push(...(await record('lasting', n, 20)));
    }
    auditBlocks = openAuditBlocks(store, (error) => {
      throw error;
    });
    await until('the index', () => find() !== undefined);
    // Only the index was read, so that this is not in it.
    for (const completes of started.filter((_, n) => n % 3 === 0))
      await storeAudit(auditServices(store, START), [
        {
          item: itemOf(START, { event: 'call_ended', call: completes.id, outcome: 'failed' }),
          part: 'lasting',
          completes,
        },
      ]);
    await record('bulk', 12, 150);
  });
  after(async () => {
    await auditBlocks.stop();
    await store.close();
  });

  const find = () =>
    auditBlocks.find(EVERYTHING, { part: 'bulk', from: 1, newestFirst: true, limit: 1 });
  const itemOf = (at: number, members: Omit<AuditItem, 'time'>) =>
    auditItem(auditServices(store, at), members);
  const record = (part: LogPart, round: number, count: number) =>
    storeAudit(
      auditServices(store, START),
      Array.from({ length: count }, (_, n) => ({
        part,
        item: itemOf(START + 3600 * round + n, {
          event: 'call',
          outcome: part === 'bulk' ? 'answered' : 'started',
          account: `person ${n % 7}`,
          grantId: `grant ${round}`,
          connector: part,
          tool: n === 50 && round % 5 === 1 ? 'rare' : `tool ${n % 3}`,
        }),
      })),
    );
  /** All pages. */
  async function numbersOf(
    filters: AuditFilters,
    newestFirst: boolean,
    searched: Parameters<typeof searchAudit>[0],
  ) {
    const found: unknown[] = [];
    for (let after: string | undefined; ;) {
      const page = await searchAudit(searched, { filters, newestFirst, limit: 200, after });
      found.push(...page.items.map(({ number, outcome }) => `${number} ${outcome}`));
      after = page.next;
      if (after === undefined) return found;
    }
  }
  const SEARCHES: [filters: AuditFilters, count: number][] = [
    [{ tool: 'rare' }, 3],
    [{ tool: 'none' }, 0],
    [{ tool: 'rare', connector: 'lasting' }, 0],
    [{ outcome: 'failed' }, 80],
    [{ outcome: 'started', grant: 'grant 2' }, 14],
    [{ account: 'person 3', tool: 'tool 1', grant: 'grant 7' }, 6],
    [{ since: START + 3600 * 4, until: START + 3600 * 6 }, 240],
    [{ event: 'call', until: START + 3600 }, 120],
    [{ event: 'call' }, 1590],
  ];

  it('finds the same items, in either order, as the index in the store, with calls that ended and items that came later', async () => {
    for (const [filters, count] of SEARCHES)
      for (const newestFirst of [true, false]) {
        const expected = await numbersOf(filters, newestFirst, { store });
        const title = JSON.stringify({ filters, newestFirst });
        expect(expected, title).to.have.lengthOf(count);
        const found = await numbersOf(filters, newestFirst, { store, auditBlocks });
        expect(found, title).to.deep.equal(expected);
      }
  });

  it('only blocks that may have a row with all that is wanted are read: calls that had not ended may have any outcome', () => {
    const blocksWith = (part: LogPart, wanted: Partial<Record<TermKind, string>>) => {
      const terms = Object.entries(wanted).map(([key, value]) => {
        const kind = key as TermKind;
        return { kind, hash: auditIndex.term(store, kind, value) };
      });
      const search = { part, from: 1, newestFirst: false, limit: 100 };
      const found = auditBlocks.find({ ...EVERYTHING, terms }, search);
      return found?.runs.reduce((sum, { count }) => sum + count, 0);
    };
    expect(blocksWith('bulk', { tool: 'rare', connector: 'bulk' })).to.equal(3);
    expect(blocksWith('bulk', { tool: 'rare', connector: 'lasting' })).to.equal(0);
    expect(blocksWith('bulk', { outcome: 'refused' })).to.equal(0);
    expect(blocksWith('lasting', { outcome: 'refused' })).to.be.above(0);
    expect(blocksWith('lasting', { outcome: 'refused', tool: 'tool 1' })).to.be.above(0);
  });

  it('a search for what is rare reads few blocks', async () => {
    let read = 0;
    const counted = {
      ...store,
      async readLogBlocks(...args: Parameters<OpenedStore['readLogBlocks']>) {
        const blocks = await store.readLogBlocks(...args);
        read += blocks.length;
        return blocks;
      },
    };
    const rows = await searchAudit(
      { store: counted, auditBlocks },
      { filters: { tool: 'rare' }, limit: 10 },
    );
    expect(rows.items).to.have.lengthOf(3);
    // Three that have it, and the newest of each part.
    expect(read).to.be.within(3, 8);
  });

  it('a search for another event than a call reads no block of calls that need not be recorded', async () => {
    const read = new Set<LogPart>();
    const watched = {
      ...store,
      readLogBlocks(...[log, range]: Parameters<OpenedStore['readLogBlocks']>) {
        read.add(range.part);
        return store.readLogBlocks(log, range);
      },
    };
    const search = async (event: string) => {
      read.clear();
      await searchAudit({ store: watched }, { filters: { event }, limit: 10 });
      return [...read].toSorted();
    };
    expect(await search('checkpoint')).to.deep.equal(['lasting']);
    expect(await search('call')).to.deep.equal(['bulk', 'lasting']);
  });

  it('finds the same items after many were trimmed', async () => {
    const services = {
      ...auditServices(store, START + 3600 * 13),
      logger: createLogger('silent'),
      metrics: { auditEvent: () => undefined, auditReach: () => undefined },
    };
    const kept = { time: 3600 * 11, items: 1000 };
    const limits = { keep: 1e9, keepUndelivered: 1e9, delivered: async () => [] };
    await trimAudit(services, { keepCalls: kept, ...limits }, 'bulk');
    for (const filters of [
      { connector: 'bulk' },
      { tool: 'tool 2' },
      { grant: 'grant 1' },
      { event: 'call' },
    ])
      for (const newestFirst of [true, false]) {
        const expected = await numbersOf(filters, newestFirst, { store });
        const found = await numbersOf(filters, newestFirst, { store, auditBlocks });
        expect(found).to.deep.equal(expected);
      }
    expect(await numbersOf({ connector: 'bulk' }, true, { store })).to.have.length.below(1001);
  });
});
