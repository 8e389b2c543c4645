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
    const record = (event: string) =>
      recordAudit(services, { event, account, address: ADDRESS, outcome: 'done' });
    await record('connected');
    await beginForgetting(services, account);
    await recordAudit(services, { event: 'account_forgotten', account, outcome: 'done' });
    await forgetInAudit(store, account);
    for (const event of events) await record(event);
    await finishForgetting(auditServices(store, NOW + 120));
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
});
