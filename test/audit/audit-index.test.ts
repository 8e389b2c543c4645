import { expect } from 'chai';
import { recordAudit } from '../../src/audit/audit.ts';
import { indexAudit } from '../../src/audit/audit-index.ts';
import { type AuditFilter, listAudit } from '../../src/management/audit-log.ts';
import { auditServices } from '../support/audit-services.ts';
import { openSystemStore } from '../support/system-store.ts';
import { onEachStore } from '../support/system.ts';
import type { Store } from '../../src/store/store.ts';

onEachStore('The index of the audit log', (system) => {
  let store: Store;
  before(async () => {
    ({ store } = await openSystemStore(system()));
  });
  after(() => store.close());

  const now = () => Date.now() / 1000;
  const record = (account: string, reason: string, event = 'consent_denied') =>
    recordAudit(auditServices(store, now()), {
      event,
      account,
      grantId: 'g',
      outcome: 'denied',
      reason,
    });
  const indexAll = async () => {
    while (await indexAudit(store));
  };
  const read = async (filter: Partial<AuditFilter>, from: Store = store) => {
    const page = { limit: 100, newestFirst: true, ...filter };
    const { items, next } = await listAudit({ services: { store: from, now } }, page);
    return { reasons: items.map(({ reason }) => reason), next };
  };

  it('the items about a person are found behind more others than one read covers, in order and once', async () => {
    for (const reason of ['1', '2', '3']) await record('ada', reason);
    await Promise.all(Array.from({ length: 1001 }, () => record('others', '')));
    await indexAll();
    expect((await read({ account: 'ada' })).reasons).to.deep.equal(['3', '2', '1']);
    for (const reason of ['4', '5']) await record('ada', reason);
    expect((await read({ account: 'ada' })).reasons).to.deep.equal(['5', '4', '3', '2', '1']);
    await Promise.all([indexAll(), indexAll()]);
    expect((await read({ account: 'ada' })).reasons).to.deep.equal(['5', '4', '3', '2', '1']);
    expect((await read({ account: 'nobody' })).reasons).to.deep.equal([]);
  });

  it('a next page follows the one before it while more items are recorded and indexed', async () => {
    for (const reason of ['1', '2', '3', '4']) await record('grace', reason);
    const first = await read({ account: 'grace', limit: 2 });
    expect(first.reasons).to.deep.equal(['4', '3']);
    await record('grace', '5');
    await indexAll();
    const second = await read({ account: 'grace', limit: 1, after: first.next });
    expect(second.reasons).to.deep.equal(['2']);
    await record('grace', '6');
    const third = await read({ account: 'grace', limit: 9, after: second.next });
    expect(third).to.deep.equal({ reasons: ['1'], next: undefined });
  });

  it('an item that is indexed while a page is read is on the page once', async () => {
    await record('edith', '1');
    await indexAll();
    for (const reason of ['2', '3']) await record('edith', reason);
    const indexedMeanwhile: Store['get'] = async <T>(key: string) => {
      const found = await store.get<T>(key);
      await indexAll();
      return found;
    };
    const { reasons } = await read({ account: 'edith' }, { ...store, get: indexedMeanwhile });
    expect(reasons).to.deep.equal(['3', '2', '1']);
  });

  it('filters are combined, and an item of a rare event is found', async () => {
    await record('alan', 'rare', 'client_revoked');
    await record('alan', 'usual');
    await Promise.all(Array.from({ length: 1001 }, () => record('others', '')));
    await indexAll();
    expect((await read({ event: 'client_revoked' })).reasons).to.deep.equal(['rare']);
    const both = await read({ account: 'alan', event: 'client_revoked' });
    expect(both.reasons).to.deep.equal(['rare']);
    expect((await read({ account: 'alan', grant: 'other' })).reasons).to.deep.equal([]);
  });
});
