import { expect } from 'chai';
import { recordAudit } from '../../src/audit/audit.ts';
import { lastAuditNumber, readAuditAfter } from '../../src/audit/audit-log.ts';
import { type AuditFilter, listAudit } from '../../src/management/audit-log.ts';
import { auditServices } from '../support/audit-services.ts';
import { openSystemStore } from '../support/system-store.ts';
import { onEachStore } from '../support/system.ts';
import type { Store } from '../../src/store/store.ts';

onEachStore('The search of the audit log', (system) => {
  let store: Store;
  before(async () => {
    ({ store } = await openSystemStore(system()));
  });
  after(() => store.close());

  const now = () => Date.now() / 1000;
  const record = (account: string, reason: string, more: { event?: string; tool?: string } = {}) =>
    recordAudit(auditServices(store, now()), {
      event: 'consent_denied',
      account,
      grantId: 'g',
      outcome: 'denied',
      reason,
      ...more,
    });
  const recordOthers = (count: number) =>
    Promise.all(Array.from({ length: count }, () => record('others', '')));
  const read = async (filter: Partial<AuditFilter>) => {
    const page = { limit: 100, newestFirst: true, ...filter };
    const { items, next } = await listAudit({ services: { store } }, page);
    return { reasons: items.map(({ reason }) => reason), next };
  };

  it('the items about a person are found among many others, in order and once', async () => {
    for (const reason of ['1', '2', '3']) await record('ada', reason);
    await recordOthers(1001);
    expect((await read({ account: 'ada' })).reasons).to.deep.equal(['3', '2', '1']);
    for (const reason of ['4', '5']) await record('ada', reason);
    expect((await read({ account: 'ada' })).reasons).to.deep.equal(['5', '4', '3', '2', '1']);
    const oldestFirst = await read({ account: 'ada', newestFirst: false });
    expect(oldestFirst.reasons).to.deep.equal(['1', '2', '3', '4', '5']);
    expect((await read({ account: 'nobody' })).reasons).to.deep.equal([]);
  });

  it('a next page follows the one before it while more items are recorded', async () => {
    for (const reason of ['1', '2', '3', '4']) await record('grace', reason);
    const first = await read({ account: 'grace', limit: 2 });
    expect(first.reasons).to.deep.equal(['4', '3']);
    await record('grace', '5');
    const second = await read({ account: 'grace', limit: 1, after: first.next });
    expect(second.reasons).to.deep.equal(['2']);
    await record('grace', '6');
    const third = await read({ account: 'grace', limit: 9, after: second.next });
    expect(third).to.deep.equal({ reasons: ['1'], next: undefined });
  });

  it('every page of a list begins where the one before it ended, in either order', async () => {
    for (const newestFirst of [true, false]) {
      // A checkpoint, which has no reason, may come in between.
      const known = (all: unknown[]) => all.filter((reason) => reason !== undefined);
      const expected = known((await read({ limit: 2000, newestFirst })).reasons);
      const reasons: unknown[] = [];
      for (let after: string | undefined; ;) {
        const page = await read({ limit: 97, newestFirst, after });
        reasons.push(...page.reasons);
        after = page.next;
        if (after === undefined) break;
      }
      expect(expected).to.have.length.above(1001);
      expect(known(reasons)).to.deep.equal(expected);
    }
  });

  it('filters are combined, and an item of a rare event is found', async () => {
    await record('alan', 'rare', { event: 'client_revoked' });
    await record('alan', 'usual');
    await recordOthers(1001);
    expect((await read({ event: 'client_revoked' })).reasons).to.deep.equal(['rare']);
    const both = await read({ account: 'alan', event: 'client_revoked' });
    expect(both.reasons).to.deep.equal(['rare']);
    expect((await read({ account: 'alan', grant: 'other' })).reasons).to.deep.equal([]);
  });

  it('the items of a time are found, and no others', async () => {
    const at = 1_900_000_000;
    for (const seconds of [0, 1, 2, 3])
      await recordAudit(auditServices(store, at + seconds), {
        event: 'signed_in',
        account: 'edith',
        outcome: 'done',
        reason: String(seconds),
      });
    expect((await read({ since: at + 1, until: at + 3 })).reasons).to.deep.equal(['2', '1']);
  });

  it('items that earlier versions stored are listed behind the others, and their `allowed` reads as `answered`', async () => {
    const earlier = { event: 'call', account: 'barbara', tool: 'cards', argumentsJson: '{}' };
    for (const [time, outcome] of [
      ['2026-01-01T00:00:00.000Z', 'allowed'],
      ['2026-01-02T00:00:00.000Z', 'refused'],
    ])
      await store.append('audit:all', { ...earlier, time, outcome }, 60);
    await record('barbara', 'new');
    const list = async (page: Partial<AuditFilter>) => {
      const filter = { limit: 1, newestFirst: true, account: 'barbara', ...page };
      const { items, next } = await listAudit({ services: { store } }, filter);
      return { outcomes: items.map(({ outcome }) => outcome), after: next };
    };
    for (const [newestFirst, expected] of [
      [true, ['denied', 'refused', 'answered']],
      [false, ['answered', 'refused', 'denied']],
    ] as const) {
      const first = await list({ newestFirst });
      const second = await list({ newestFirst, after: first.after });
      const third = await list({ newestFirst, after: second.after });
      expect([first, second, third].flatMap(({ outcomes }) => outcomes)).to.deep.equal(expected);
    }
    expect((await list({ limit: 9 })).outcomes).to.deep.equal(['denied', 'refused', 'answered']);
  });

  it('two processes never give the same number and leave none out', async () => {
    const { store: second } = await openSystemStore(system());
    try {
      const before = await lastAuditNumber(store);
      const stored = await Promise.all(
        Array.from({ length: 40 }, (_, n) =>
          recordAudit(auditServices(n % 2 ? store : second, now()), {
            event: 'signed_in',
            outcome: 'done',
          }),
        ),
      );
      const numbers = stored.map(({ number = 0 }) => number).toSorted((a, b) => a - b);
      const read = await readAuditAfter(second, before, 100);
      expect(read.map(({ number }) => number)).to.deep.equal(read.map((_, n) => before + 1 + n));
      // The system may add a checkpoint meanwhile.
      const others = read.filter(({ item }) => item?.event !== 'checkpoint');
      expect(others.map(({ number }) => number)).to.deep.equal(numbers);
      expect(new Set(stored.map(({ id }) => id))).to.have.lengthOf(40);
      expect(new Set(stored.map(({ epoch }) => epoch))).to.have.lengthOf(1);
    } finally {
      await second.close();
    }
  });
});
