import { expect } from 'chai';
import {
  BLOCK_ROWS,
  completedBy,
  keptRows,
  numberAt,
  rowCount,
  termAt,
  timeAt,
} from '../../src/store/log-rows.ts';
import type { LogPart, NewLogEntry, Store } from '../../src/store/store.ts';
import { type ContractFixture, RACERS } from './contract-fixture.ts';

function entry(value: unknown, part: LogPart = 'bulk'): NewLogEntry<unknown> {
  return { value, part, time: 1_900_000_000, terms: ['outcome:done', undefined, 'tool:cards'] };
}

export function testLogs(fixture: ContractFixture): void {
  describe('Logs in the store', () => {
    let store: Store;
    let key: string;
    beforeEach(() => {
      store = fixture.store();
      key = fixture.key();
    });

    async function rowsOf(part: LogPart) {
      const blocks = await store.readLogBlocks(key, { part, after: 0, limit: 100 });
      return blocks.flatMap(({ rows }) =>
        Array.from({ length: rowCount(rows) }, (_, index) => ({
          number: numberAt(rows, index),
          time: timeAt(rows, index),
          completedBy: completedBy(rows, index),
          terms: [0, 1, 2, 3].map((term) => termAt(rows, index, term)),
        })),
      );
    }

    it('a log gives its entries numbers without gaps, in one write, also if several append', async () => {
      const appended = await fixture.race((each, n) =>
        each.appendLog(
          key,
          Array.from({ length: 1 + (n % 3) }, () => entry(n)),
        ),
      );
      const total = appended.reduce((sum, _, n) => sum + 1 + (n % 3), 0);
      const read = await store.readLog<number>(key, { after: 0, limit: 1000 });
      expect(read.map(({ number }) => number)).to.deep.equal(
        Array.from({ length: total }, (_, n) => n + 1),
      );
      for (const [n, { first, epoch }] of appended.entries()) {
        const own = read.slice(first - 1, first + (n % 3));
        expect(own.map(({ value }) => value)).to.deep.equal(own.map(() => n));
        expect(own.map((one) => one.epoch)).to.deep.equal(own.map(() => epoch));
      }
      expect(appended).to.have.lengthOf(RACERS);
      expect(await store.lastInLog(key)).to.equal(total);
    });

    it('a log is read from any number on, and single entries by their numbers', async () => {
      await store.appendLog(
        key,
        ['a', 'b', 'c', 'd'].map((value) => entry(value)),
      );
      const values = (read: { value: unknown }[]) => read.map(({ value }) => value);
      expect(values(await store.readLog(key, { after: 1, limit: 2 }))).to.deep.equal(['b', 'c']);
      expect(values(await store.readLog(key, { after: 4, limit: 2 }))).to.deep.equal([]);
      expect(values(await store.readLogEntries(key, [4, 9, 2]))).to.deep.equal(['d', 'b']);
      expect(await store.readLog('log:nothing', { after: 0, limit: 2 })).to.deep.equal([]);
      expect(await store.lastInLog('log:nothing')).to.equal(0);
    });

    it('the index of a log has a row for each entry, by part, with its time and the hashes of its terms', async () => {
      await store.appendLog(key, [entry(1), entry(2, 'lasting'), entry(3)]);
      const [one, three, ...more] = await rowsOf('bulk');
      expect(more).to.deep.equal([]);
      const terms = ['outcome:done', '', 'tool:cards', ''].map((term) =>
        term === '' ? 0 : store.logTerm(key, term),
      );
      const row = { time: 1_900_000_000, completedBy: 0, terms };
      expect([one, three]).to.deep.equal([
        { number: 1, ...row },
        { number: 3, ...row },
      ]);
      expect((await rowsOf('lasting')).map(({ number }) => number)).to.deep.equal([2]);
    });

    it('the blocks of an index are bounded, and read page by page in either order', async () => {
      const count = 2 * BLOCK_ROWS + 5;
      for (let from = 0; from < count; from += 37)
        await store.appendLog(
          key,
          Array.from({ length: Math.min(37, count - from) }, (_, n) => entry(from + n)),
        );
      const numbers = (await rowsOf('bulk')).map(({ number }) => number);
      expect(numbers).to.deep.equal(Array.from({ length: count }, (_, n) => n + 1));
      const [newest, middle] = await store.readLogBlocks(key, {
        part: 'bulk',
        before: count + 1,
        limit: 2,
      });
      expect(newest && rowCount(newest.rows)).to.equal(5);
      expect(middle && rowCount(middle.rows)).to.equal(BLOCK_ROWS);
      const range = { part: 'bulk', before: middle?.first ?? 0, limit: 2 } as const;
      expect((await store.readLogBlocks(key, range)).map(({ first }) => first)).to.deep.equal([1]);
      const runs = [
        { before: 1000, limit: 1 },
        { before: 2, limit: 3 },
        { before: 1, limit: 1 },
      ];
      const blocks = await store.readLogBlocks(key, { part: range.part, runs });
      expect(blocks.map(({ first }) => first)).to.deep.equal([newest?.first, 1]);
      expect(await store.readLogBlocks(key, { part: range.part, runs: [] })).to.deep.equal([]);
    });

    it('an entry that completes another one has no row, and gives the other one its first term', async () => {
      const { epoch } = await store.appendLog(key, [entry('call'), entry('other')]);
      const completes = { number: 1, epoch, term: 'outcome:done' };
      await store.appendLog(key, [
        { ...entry('end'), terms: ['outcome:failed'], completes },
        entry('later'),
      ]);
      const rows = (await rowsOf('bulk')).map((row) => [row.number, row.completedBy, row.terms[0]]);
      const [done, failed] = ['outcome:done', 'outcome:failed'].map((t) => store.logTerm(key, t));
      expect(rows).to.deep.equal([
        [1, 3, failed],
        [2, 0, done],
        [4, 0, done],
      ]);
      expect((await store.readLog(key, { after: 0, limit: 9 })).length).to.equal(4);
    });

    it('after a failover, an entry does not complete one that got the number of another', async () => {
      const { epoch } = await store.appendLog(key, [entry('one'), entry('other')]);
      const rows = await rowsOf('bulk');
      for (const completes of [
        { number: 1, epoch, term: 'outcome:started' },
        { number: 1, epoch: 'b'.repeat(epoch.length), term: 'outcome:done' },
        { number: 9, epoch, term: 'outcome:done' },
      ])
        await store.appendLog(key, [{ ...entry('end'), terms: ['outcome:failed'], completes }]);
      expect(await rowsOf('bulk')).to.deep.equal(rows);
    });

    it('trimming deletes entries and their rows, keeps the others, and gives no number again', async () => {
      await store.appendLog(
        key,
        Array.from({ length: BLOCK_ROWS + 2 }, (_, n) => entry(n)),
      );
      const blocks = await store.readLogBlocks(key, { part: 'bulk', after: 0, limit: 9 });
      const keep = (number: number) => number > 3 && number <= BLOCK_ROWS;
      const isTrimmed = await store.trimLog(key, {
        part: 'bulk',
        ranges: [
          [1, 3],
          [BLOCK_ROWS + 1, BLOCK_ROWS + 2],
        ],
        blocks: blocks.map((before) => ({
          before,
          after: keptRows(before.rows, (index) => keep(numberAt(before.rows, index))),
        })),
      });
      expect(isTrimmed).to.equal(true);
      const kept = Array.from({ length: BLOCK_ROWS - 3 }, (_, n) => n + 4);
      expect((await rowsOf('bulk')).map(({ number }) => number)).to.deep.equal(kept);
      const read = await store.readLog(key, { after: 0, limit: 999 });
      expect(read.map(({ number }) => number)).to.deep.equal(kept);
      const { first } = await store.appendLog(key, [entry('next')]);
      expect(first).to.equal(BLOCK_ROWS + 3);
    });

    it('trimming keeps what was added meanwhile, and deletes nothing if a row was changed', async () => {
      await store.appendLog(key, [entry(1)]);
      const [before] = await store.readLogBlocks(key, { part: 'bulk', after: 0, limit: 1 });
      if (!before) throw new Error('the log has no block');
      const { epoch } = await store.appendLog(key, [entry(2)]);
      const trim = (number: number, block: typeof before) =>
        store.trimLog(key, {
          part: 'bulk',
          ranges: [[number, number]],
          blocks: [{ before: block, after: Buffer.alloc(0) }],
        });
      expect(await trim(1, before)).to.equal(true);
      expect((await rowsOf('bulk')).map(({ number }) => number)).to.deep.equal([2]);
      const [left] = await store.readLogBlocks(key, { part: 'bulk', after: 0, limit: 1 });
      // The rows before it may be in another block now.
      expect(left?.first).to.equal(2);
      const completes = { number: 2, epoch, term: 'outcome:done' };
      await store.appendLog(key, [{ ...entry('end'), completes }]);
      expect(await trim(2, left ?? before)).to.equal(false);
      expect(await store.readLog(key, { after: 0, limit: 9 })).to.have.lengthOf(2);
    });

    it('of those who append after the same mark, one does, and a log without a mark has an empty one', async () => {
      expect(await store.logMark(key)).to.equal('');
      await store.appendLog(key, [entry('first')]);
      const appended = await fixture.race((each, n) =>
        each.appendMarked(key, [entry(n)], { before: '', after: `mark ${n}` }),
      );
      const [winner, ...others] = appended.flatMap((result, n) => (result ? [n] : []));
      expect(others).to.deep.equal([]);
      expect(await store.logMark(key)).to.equal(`mark ${winner}`);
      const next = { before: `mark ${winner}`, after: 'next' };
      expect((await store.appendMarked(key, [entry('next')], next))?.first).to.equal(3);
      const read = await store.readLog(key, { after: 0, limit: 9 });
      expect(read.map(({ value }) => value)).to.deep.equal(['first', winner, 'next']);
    });

    it('a replaced entry keeps its number, its epoch and its row, and one that was trimmed stays away', async () => {
      const { epoch } = await store.appendLog(key, [entry('a'), entry('b'), entry('c')]);
      const rows = await rowsOf('bulk');
      await store.trimLog(key, { part: 'bulk', ranges: [[3, 3]], blocks: [] });
      const replaced = [1, 3].map((number) => ({ number, value: `new ${number}` }));
      await store.replaceLogEntries(key, replaced);
      expect(await store.readLog(key, { after: 0, limit: 9 })).to.deep.equal([
        { number: 1, epoch, value: 'new 1' },
        { number: 2, epoch, value: 'b' },
      ]);
      expect(await rowsOf('bulk')).to.deep.equal(rows);
    });

    it('a new epoch is that of the entries that follow, and numbers go on', async () => {
      const { epoch: old } = await store.appendLog(key, [entry(1)]);
      const epoch = await store.beginLogEpoch(key);
      expect(await store.appendLog(key, [entry(2)])).to.deep.equal({ first: 2, epoch });
      const read = await store.readLog(key, { after: 0, limit: 9 });
      expect(read.map((one) => one.epoch)).to.deep.equal([old, epoch]);
      expect(epoch).to.not.equal(old);
    });
  });
}
