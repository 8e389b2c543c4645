import { expect } from 'chai';
import type { Account } from '../../src/people/account.ts';
import { updateAccount } from '../../src/people/accounts.ts';
import { withLease, withRotatedToken } from '../../src/people/recheck.ts';
import { openSystemStore } from '../support/system-store.ts';
import { onEachStore } from '../support/system.ts';

const DAY = 86_400;
const NOW = 100 * DAY;
const ACCOUNT: Account = {
  id: 'a'.repeat(27),
  issuer: 'https://login.example.com',
  subject: 'ada',
  name: 'Ada',
  emailVerified: false,
  groups: [],
  signedInAt: NOW - DAY,
  recheck: { token: 'first', answeredAt: NOW - DAY },
};

onEachStore('Concurrent rechecks of one person', (system) => {
  it('exactly one of many processes may ask, and the first successor of a token is kept', async () => {
    const opened = await Promise.all([openSystemStore(system()), openSystemStore(system())]);
    const stores = opened.map(({ store }) => store);
    await stores[0]?.set(`account:${ACCOUNT.id}`, ACCOUNT, DAY);
    const race = (next: (account: Account, by: string) => Account | undefined) =>
      Promise.all(
        Array.from({ length: 5 }).flatMap((_, n) =>
          stores.map((store, m) =>
            updateAccount(store, ACCOUNT.id, DAY, (account) => next(account, `${n} ${m}`)),
          ),
        ),
      );
    const leases = await race((account, by) => withLease(account, by, DAY, NOW));
    expect(leases.filter((lease) => lease?.first)).to.have.lengthOf(1);
    const kept = await race((account, by) => withRotatedToken(account, 'first', by));
    expect(kept.filter((change) => change?.first)).to.have.lengthOf(1);
    await Promise.all(stores.map((store) => store.close()));
  });
});
