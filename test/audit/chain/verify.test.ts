import { expect } from 'chai';
import { STORES } from '../../support/system.ts';
import { type ChainLog, openChainLog } from './chain-log.ts';

for (const kind of STORES)
  describe(`Checkpoints of the audit log, on ${kind}`, () => {
    let log: ChainLog;
    beforeEach(async () => {
      log = await openChainLog(kind);
    });
    afterEach(() => log.close());

    it('a log with checkpoints is verified', async () => {
      await log.append(3, { account: 'ada', address: '192.0.2.1', target: 'orders' });
      await log.checkpoint();
      await log.append(1005);
      await log.checkpoint();
      await log.checkpoint();
      await log.append(2);
      expect(await log.verify()).to.deep.equal({
        ok: true,
        checkpoints: 3,
        problems: [],
        notes: [],
      });
    });
  });
