import { expect } from 'chai';
import { beginForgetting, finishForgetting, forgetInAudit } from '../../src/audit/chain/forget.ts';
import { recordChange, recordInterrupted } from '../../src/audit/recorded-change.ts';
import { STORES } from '../support/system.ts';
import { type ChainLog, openChainLog } from './chain/chain-log.ts';

const DISABLED = { event: 'account_disabled', account: 'ada', by: 'key:a' };
const CALL = { event: 'call', account: 'ada', address: '203.0.113.7', outcome: 'answered' };

for (const kind of STORES)
  describe(`Changes and their items in the audit log, on ${kind}`, () => {
    let log: ChainLog;
    beforeEach(async () => {
      log = await openChainLog(kind);
    });
    afterEach(() => log.close());
    const found = async () =>
      (await log.items()).map(({ event, account, outcome }) => [event, account, outcome].join(' '));
    const later = async () => {
      log.advance(61);
      await recordInterrupted(log.services);
    };

    it('a change is recorded once, and one that changes nothing is not', async () => {
      for (const isChanged of [true, false])
        await recordChange(log.services, DISABLED, {
          make: async () => undefined,
          itemOf: () => (isChanged ? DISABLED : undefined),
        });
      await later();
      expect(await found()).to.deep.equal(['account_disabled ada done']);
    });

    it('LOG-20 a change whose item could not be stored is recorded later, once, as interrupted', async () => {
      const { store } = log.services;
      const failing = {
        ...log.services,
        store: { ...store, appendLog: () => Promise.reject(new Error('full')) },
      };
      const options = { make: async () => true, itemOf: () => DISABLED };
      const failed = await recordChange(failing, DISABLED, options).catch(String);
      expect(failed).to.include('full');
      await recordInterrupted(log.services);
      expect(await found(), 'it may still be made').to.deep.equal([]);
      for (let times = 0; times < 2; times += 1) await later();
      expect(await found()).to.deep.equal(['account_disabled ada interrupted']);
    });

    it('PRV-06 what is stored about a person after the person was forgotten is forgotten too, and the log stays verifiable', async () => {
      await log.append(1, CALL);
      await beginForgetting(log.services, 'ada');
      await log.append(1, { event: 'account_forgotten', account: 'ada', outcome: 'done' });
      await forgetInAudit(log.services.store, 'ada');
      await finishForgetting(log.services);
      expect(await found()).to.have.lengthOf(2);
      await log.append(2, CALL, 'bulk');
      await log.append(1, { ...CALL, account: 'grace' });
      await finishForgetting(log.services);
      const items = await log.items();
      expect(items.filter(({ event }) => event === 'account_forgotten')).to.have.lengthOf(2);
      expect(items.filter(({ address }) => address).map(({ account }) => account)).to.deep.equal([
        'grace',
      ]);
      await log.checkpoint();
      expect(await log.verify()).to.deep.include({ ok: true, problems: [] });
      log.advance(601);
      await finishForgetting(log.services);
      await log.append(1, CALL);
      await finishForgetting(log.services);
      const [last] = (await log.items()).slice(-1);
      expect(last, 'of somebody who came back').to.include({ address: CALL.address });
    });

    it('PRV-06 a process that ended while it deleted values is followed by another one', async () => {
      await log.append(1, CALL);
      await beginForgetting(log.services, 'ada');
      await log.append(1, { event: 'account_forgotten', account: 'ada', outcome: 'done' });
      log.advance(601);
      await finishForgetting(log.services);
      expect(JSON.stringify(await log.items())).to.not.include(CALL.address);
    });
  });
