// What trimming removes after somebody with access to the database changed the index, which nobody signs.
import { expect } from 'chai';
import { type KeptAudit, trimAudit, trimmingProgress } from '../../../src/audit/audit-keep.ts';
import { auditItem, storeAudit } from '../../../src/audit/audit.ts';
import { createLogger } from '../../../src/observability/logger.ts';
import { COMPLETED_AT, NUMBER_BYTES, ROW_BYTES } from '../../../src/store/log-rows.ts';
import type { LogPart } from '../../../src/store/store.ts';
import { STORES } from '../../support/system.ts';
import { type ChainLog, openChainLog } from './chain-log.ts';

const LOG = 'audit:log';
const DAY = 86_400;
const KEPT: KeptAudit = {
  keep: 400 * DAY,
  keepUndelivered: 1_000_000,
  keepCalls: { time: 90 * DAY, items: 1000 },
  delivered: async () => [],
};

for (const kind of STORES)
  describe(`Trimming by an index that was changed, on ${kind}`, () => {
    let log: ChainLog;
    let told: Record<string, unknown>[];
    beforeEach(async () => {
      told = [];
      log = await openChainLog(kind);
    });
    afterEach(() => log.close());

    const trim = (part: LogPart, kept: KeptAudit = KEPT, progress = trimmingProgress()) => {
      const write = (line: string) => void told.push(JSON.parse(line));
      const metrics = { ...log.services.metrics, auditReach: () => undefined };
      const logger = createLogger('error', { write });
      return trimAudit({ ...log.services, logger, metrics }, kept, part, progress);
    };
    /** Changes the rows of the oldest block. */
    async function changeRows(part: LogPart, change: (rows: Buffer) => Buffer): Promise<void> {
      const [before] = await log.store.readLogBlocks(LOG, { part, after: 0, limit: 1 });
      if (!before) throw new Error('there is no block');
      const blocks = [{ before, after: change(Buffer.from(before.rows)) }];
      await log.store.trimLog(LOG, { part, ranges: [], blocks });
    }
    /** Takes the row of an item out of its block. */
    async function takeRow(part: LogPart, number: number): Promise<Buffer> {
      let taken: Buffer | undefined;
      await changeRows(part, (rows) => {
        for (let at = 0; at < rows.length; at += ROW_BYTES) {
          if (rows.readUIntBE(at, NUMBER_BYTES) !== number) continue;
          taken = rows.subarray(at, at + ROW_BYTES);
          return Buffer.concat([rows.subarray(0, at), rows.subarray(at + ROW_BYTES)]);
        }
        return rows;
      });
      if (!taken) throw new Error(`there is no row of ${number}`);
      return taken;
    }
    const numbers = async () => (await log.items()).map(({ number }) => number);
    /** Also those that cannot be decrypted. */
    const stored = async () =>
      (await log.store.readLog(LOG, { after: 0, limit: 1000 })).map(({ number }) => number);
    /** So that they cannot be decrypted. */
    async function flip(first: number, last: number): Promise<void> {
      for (let number = first; number <= last; number += 1) {
        const bytes = await log.database.entry(number);
        bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
        await log.database.put(number, bytes);
      }
    }
    const problems = async () =>
      (await log.verify()).problems.map(({ kind: found, id }) => [found, id]);
    const event = { event: 'connector_changed', outcome: 'done' };

    it('PRV-08 an item whose row has an older time than the item stays, and is a finding', async () => {
      const [victim] = await log.append(3, event);
      await log.checkpoint();
      await changeRows('lasting', (rows) => {
        const row = Buffer.from(rows.subarray(0, ROW_BYTES));
        row.writeUInt32BE(0, NUMBER_BYTES);
        return Buffer.concat([rows, row]);
      });
      await trim('lasting');
      expect(await numbers()).to.include(victim?.number);
      expect(await problems()).to.deep.equal([['index', victim?.id]]);
      expect(told.map(({ first }) => first)).to.deep.equal([victim?.number]);
    });

    it('PRV-08 an item stays that the row of an older call names as its end, and the call goes', async () => {
      const [old] = await log.append(1, { event: 'call', outcome: 'started' });
      log.advance(401 * DAY);
      const [victim] = await log.append(1, event);
      await log.checkpoint();
      await changeRows('lasting', (rows) => {
        rows.writeUIntBE(victim?.number ?? 0, COMPLETED_AT, NUMBER_BYTES);
        return rows;
      });
      await trim('lasting');
      expect(await numbers())
        .to.include(victim?.number)
        .and.not.include(old?.number);
      expect(await problems()).to.deep.equal([]);
    });

    it('PRV-08 an item stays over which an old call was copied with its row', async () => {
      await log.append(1, {}, 'bulk');
      const [victim] = await log.append(1, event);
      await log.checkpoint();
      const number = victim?.number ?? 0;
      await log.database.put(number, await log.database.entry(1));
      await takeRow('lasting', number);
      await changeRows('bulk', (rows) => {
        const row = Buffer.from(rows.subarray(0, ROW_BYTES));
        row.writeUIntBE(number, 0, NUMBER_BYTES);
        return Buffer.concat([rows, row]);
      });
      log.advance(91 * DAY);
      await trim('bulk');
      expect(await numbers())
        .to.include(number)
        .and.not.include(1);
      expect(told.map(({ first }) => first)).to.deep.equal([number]);
      await log.checkpoint();
      expect((await log.verify()).ok).to.equal(false);
    });

    it('PRV-08 an item that cannot be decrypted stays as long as lasting ones, also if its row is among those of calls', async () => {
      await log.append(1, {}, 'bulk');
      const [victim] = await log.append(1, event);
      const number = victim?.number ?? 0;
      await log.append(1, event);
      await log.checkpoint();
      await flip(number, number);
      const row = await takeRow('lasting', number);
      row.writeUInt32BE(0, NUMBER_BYTES);
      await changeRows('bulk', (rows) => Buffer.concat([rows, row]));
      log.advance(91 * DAY);
      await trim('bulk');
      expect(await stored())
        .to.include(number)
        .and.not.include(1);
      log.advance(310 * DAY);
      await trim('bulk');
      expect(await stored()).to.not.include(number);
    });

    it('hundreds of old items that cannot be decrypted go', async () => {
      await log.append(400, event);
      await log.append(1, event);
      await flip(1, 400);
      log.advance(401 * DAY);
      const [recent] = await log.append(1, event);
      await trim('lasting');
      expect((await stored())[0]).to.equal(recent?.number);
    });

    it('of too many calls, later ones go instead of those that cannot be decrypted', async () => {
      await log.append(40, { grantId: 'flood' }, 'bulk');
      await flip(1, 10);
      await trim('bulk', { ...KEPT, keepCalls: { time: 90 * DAY, items: 20 } });
      const left = (await stored()).filter((number) => number <= 40);
      expect(left).to.have.lengthOf.within(19, 20);
      expect(left.slice(0, 10)).to.deep.equal(Array.from({ length: 10 }, (_, n) => n + 1));
    });

    it('rows that stay keep no later ones from going, and are reported once an hour', async () => {
      const differing = await log.append(200, event);
      await log.append(200, event);
      for (let from = 0; from < 200; from += 90) {
        const range = { part: 'lasting', after: from + 1, limit: 1 } as const;
        const [before] = await log.store.readLogBlocks(LOG, range);
        if (!before) throw new Error('there is no block');
        const after = Buffer.from(before.rows);
        for (let at = 0; at < after.length; at += ROW_BYTES)
          if (after.readUIntBE(at, NUMBER_BYTES) <= 200) after.writeUInt32BE(1, at + NUMBER_BYTES);
        await log.store.trimLog(LOG, { part: 'lasting', ranges: [], blocks: [{ before, after }] });
      }
      log.advance(401 * DAY);
      const progress = trimmingProgress(90);
      for (let runs = 0; runs < 5; runs += 1) await trim('lasting', KEPT, progress);
      const left = (await stored()).filter((number) => number <= 400);
      expect(left).to.deep.equal(differing.map(({ number }) => number));
      expect(told).to.have.lengthOf(1);
      log.advance(3600);
      await trim('lasting', KEPT, progress);
      expect(told).to.have.lengthOf(2);
    });

    for (const [what, item] of [
      ['an item of another event', event],
      ['a recorded call', { event: 'call', outcome: 'started' }],
    ] as const)
      it(`PRV-08 ${what} stays although its row is among those of calls, and is a finding`, async () => {
        await log.append(1, {}, 'bulk');
        const [victim] = await log.append(1, item);
        await log.checkpoint();
        const row = await takeRow('lasting', victim?.number ?? 0);
        await changeRows('bulk', (rows) => Buffer.concat([rows, row]));
        expect(await problems()).to.deep.equal([['index', victim?.id]]);
        log.advance(91 * DAY);
        await trim('bulk');
        expect(await numbers())
          .to.include(victim?.number)
          .and.not.include(1);
        await log.checkpoint();
        expect(await problems()).to.deep.equal([['index', victim?.id]]);
      });

    it('PRV-08 of too many calls, one stays whose row has the connection of others', async () => {
      const [victim] = await log.append(1, { grantId: 'quiet' }, 'bulk');
      await log.append(30, { grantId: 'flood' }, 'bulk');
      await changeRows('bulk', (rows) => {
        rows.copy(rows, NUMBER_BYTES, ROW_BYTES + NUMBER_BYTES, 2 * ROW_BYTES);
        return rows;
      });
      await trim('bulk', { ...KEPT, keepCalls: { time: 90 * DAY, items: 20 } });
      const left = await numbers();
      expect(left).to.include(victim?.number);
      expect(left).to.have.lengthOf.below(31);
    });

    it('a row without an item goes, and its number is not said to be trimmed', async () => {
      await log.append(4, event);
      await log.checkpoint();
      await log.database.remove(2, 2);
      log.advance(401 * DAY);
      await trim('lasting');
      const items = await log.items();
      expect(items.map(({ number }) => number)).to.not.include(4);
      const [trimming] = items.filter(({ event: found }) => found === 'audit_trimmed');
      expect(trimming?.ranges?.[0]).to.deep.equal([1, 1]);
      const [block] = await log.store.readLogBlocks(LOG, { part: 'lasting', after: 0, limit: 1 });
      expect(block?.rows.readUIntBE(0, NUMBER_BYTES)).to.be.above(4);
    });

    it('an item that cannot be decrypted goes with later ones, and stays while these do', async () => {
      await log.append(4, event);
      await flip(2, 3);
      await changeRows('lasting', (rows) => {
        rows.writeUInt32BE(0, ROW_BYTES + NUMBER_BYTES);
        return rows;
      });
      await trim('lasting');
      expect((await stored()).slice(0, 4)).to.deep.equal([1, 2, 3, 4]);
      log.advance(401 * DAY);
      await log.append(1, event);
      await trim('lasting');
      expect((await stored())[0]).to.equal(5);
    });

    it('a call goes together with its end, not before every target has both', async () => {
      const [call] = await log.append(1, { event: 'call', outcome: 'started' });
      const item = auditItem(log.services, {
        event: 'call_ended',
        call: call?.id,
        outcome: 'done',
      });
      const [end] = await storeAudit(log.services, [{ item, part: 'lasting', completes: call }]);
      log.advance(401 * DAY);
      await trim('lasting', { ...KEPT, delivered: async () => [call?.number ?? 0] });
      expect(await numbers()).to.include.members([call?.number, end?.number]);
      await trim('lasting');
      expect(await numbers()).to.not.include.members([call?.number]);
      expect(await numbers()).to.not.include.members([end?.number]);
      expect(told).to.deep.equal([]);
    });
  });
