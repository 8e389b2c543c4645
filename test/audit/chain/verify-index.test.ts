import { expect } from 'chai';
import { auditItem, storeAudit } from '../../../src/audit/audit.ts';
import { trimAudit } from '../../../src/audit/audit-keep.ts';
import { NUMBER_BYTES, ROW_BYTES, rowCount } from '../../../src/store/log-rows.ts';
import type { LogPart, Store } from '../../../src/store/store.ts';
import { STORES } from '../../support/system.ts';
import { type ChainLog, openChainLog } from './chain-log.ts';

const LOG = 'audit:log';

for (const kind of STORES)
  describe(`The verification of the index of the audit log, on ${kind}`, () => {
    let log: ChainLog;
    beforeEach(async () => {
      log = await openChainLog(kind);
      await log.append(2, { event: 'call', tool: 'cards', account: 'ada', outcome: 'answered' });
      await log.append(3, { event: 'call', tool: 'cards', outcome: 'answered' }, 'bulk');
    });
    afterEach(() => log.close());

    /** Changes the rows of the newest block, as somebody with access to the database can. */
    async function changeRows(part: LogPart, change: (rows: Buffer) => Buffer): Promise<void> {
      const range = { part, before: Number.MAX_SAFE_INTEGER, limit: 1 };
      const [before] = await log.store.readLogBlocks(LOG, range);
      if (!before) throw new Error('there is no block');
      const blocks = [{ before, after: change(Buffer.from(before.rows)) }];
      await log.store.trimLog(LOG, { part, ranges: [], blocks });
    }
    const problems = async () => {
      const found = (await log.verify()).problems;
      const items = await log.items();
      return found.map((problem) => [
        problem.kind,
        items.find(({ id }) => id === problem.id)?.number,
      ]);
    };

    it('an index as it was written is no finding, also of calls that ended', async () => {
      const [started] = await log.append(1, { event: 'call', outcome: 'started' });
      const ended = { event: 'call_ended', call: started?.id, outcome: 'failed' };
      const item = auditItem(log.services, ended);
      await storeAudit(log.services, [{ item, part: 'lasting', completes: started }]);
      expect(await problems()).to.deep.equal([]);
      await log.checkpoint();
      expect(await problems()).to.deep.equal([]);
    });

    it('a call that is stored while the newest block is joined with another one is no finding', async () => {
      for (const grantId of ['quiet', 'other']) await log.append(20, { grantId }, 'bulk');
      await log.append(80, { grantId: 'flood' }, 'bulk');
      const store: Store = {
        ...log.store,
        async trimLog(...trimming) {
          await log.append(1, { grantId: 'quiet' }, 'bulk');
          return log.store.trimLog(...trimming);
        },
      };
      const kept = {
        keep: 1_000_000,
        keepUndelivered: 1_000_000,
        keepCalls: { time: 1_000_000, items: 60 },
        delivered: async () => [],
      };
      const metrics = { ...log.services.metrics, auditReach: () => undefined };
      await trimAudit({ ...log.services, metrics, store }, kept, 'bulk');
      const blocks = await log.store.readLogBlocks(LOG, { part: 'bulk', after: 0, limit: 9 });
      expect(blocks.map(({ rows }) => rowCount(rows)).at(-1)).to.equal(1);
      expect(blocks).to.have.lengthOf(2);
      await log.checkpoint();
      expect(await problems()).to.deep.equal([]);
    });

    it('PRV-07 an item that the index lacks is found, with a checkpoint and before it', async () => {
      await changeRows('bulk', (rows) =>
        Buffer.concat([rows.subarray(0, ROW_BYTES), rows.subarray(2 * ROW_BYTES)]),
      );
      expect(await problems()).to.deep.equal([['index', 4]]);
      await log.checkpoint();
      expect(await problems()).to.deep.equal([['index', 4]]);
    });

    it('PRV-07 an item that the index has once more, in the block of others, is found', async () => {
      await log.append(100, { event: 'connector_changed', outcome: 'done' });
      await log.checkpoint();
      const [oldest, newest] = await log.store.readLogBlocks(LOG, {
        part: 'lasting',
        after: 0,
        limit: 2,
      });
      if (!oldest || !newest) throw new Error('there are too few blocks');
      const row = newest.rows.subarray(0, ROW_BYTES);
      const number = row.readUIntBE(0, NUMBER_BYTES);
      const blocks = [{ before: oldest, after: Buffer.concat([oldest.rows, row]) }];
      await log.store.trimLog(LOG, { part: 'lasting', ranges: [], blocks });
      expect(await problems()).to.deep.equal([['index', number]]);
    });

    it('PRV-07 an item that the index has with another time, person or end is found', async () => {
      await log.checkpoint();
      for (const at of [6, 10, 24]) {
        await changeRows('bulk', (rows) => {
          const place = (rowCount(rows) - 1) * ROW_BYTES + at;
          rows.writeUInt8(rows.readUInt8(place) ^ 1, place);
          return rows;
        });
        expect(await problems(), String(at)).to.deep.equal([['index', 5]]);
        await changeRows('bulk', (rows) => {
          const place = (rowCount(rows) - 1) * ROW_BYTES + at;
          rows.writeUInt8(rows.readUInt8(place) ^ 1, place);
          return rows;
        });
      }
      expect(await problems()).to.deep.equal([]);
    });
  });
