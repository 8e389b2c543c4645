import { expect } from 'chai';
import { recordAudit } from '../../../src/audit/audit.ts';
import { readSealedAfter } from '../../../src/audit/audit-log.ts';
import {
  beginForgetting,
  finishForgetting,
  forgetInAudit,
} from '../../../src/audit/chain/forget.ts';
import type { OpenedStore } from '../../../src/store/open.ts';
import { auditServices } from '../../support/audit-services.ts';
import { onEachStore } from '../../support/system.ts';
import { openSystemStore } from '../../support/system-store.ts';

const NOW = 2_000_000_000;
const DAY = 86_400;
const ADDRESS = '192.0.2.1';

onEachStore('Items of an account that was forgotten', (system) => {
  let store: OpenedStore;
  before(async () => {
    ({ store } = await openSystemStore(system()));
  });
  after(() => store.close());

  /** The events of the account whose items still have an address, after it was forgotten and `events` were stored. */
  async function addressesAfter(account: string, events: readonly string[]): Promise<string[]> {
    const services = auditServices(store, NOW);
    await record(account, 'connected');
    await beginForgetting(services, account);
    await recordAudit(services, { event: 'account_forgotten', account, outcome: 'done' });
    await forgetInAudit(store, account);
    for (const event of events) await record(account, event);
    await finishForgetting(auditServices(store, NOW + 120));
    return withAddress(account);
  }

  async function record(account: string, event: string): Promise<void> {
    const item = { event, account, address: ADDRESS, outcome: 'done' };
    await recordAudit(auditServices(store, NOW), item);
  }

  async function withAddress(account: string): Promise<string[]> {
    const items = (await readSealedAfter(store, 0, 1000)).flatMap(({ item }) => item ?? []);
    return items
      .filter((item) => item.account === account && item.address === ADDRESS)
      .map(({ event }) => event);
  }

  it('that are stored minutes later are forgotten too', async () => {
    expect(await addressesAfter('gone', ['call_ended'])).to.deep.equal([]);
  });

  for (const event of ['signed_in', 'console_sign_in'])
    it(`stay after the person came back (${event})`, async () => {
      expect(await addressesAfter(`back ${event}`, [event])).to.deep.equal([event]);
    });

  it('stay at whatever moment of a later pass the person comes back', async () => {
    const endAll = () => finishForgetting(auditServices(store, NOW + DAY));
    for (let moment = 1, isBack = true; isBack; moment += 1) {
      await endAll();
      const account = `back at read ${moment}`;
      await addressesAfter(account, []);
      let reads = 0;
      const readLogBlocks: OpenedStore['readLogBlocks'] = async (...args) => {
        const blocks = await store.readLogBlocks(...args);
        reads += 1;
        if (reads === moment) await record(account, 'signed_in');
        return blocks;
      };
      await finishForgetting(auditServices({ ...store, readLogBlocks }, NOW + 180));
      await endAll();
      isBack = reads >= moment;
      expect(await withAddress(account)).to.deep.equal(isBack ? ['signed_in'] : []);
    }
  });
});
