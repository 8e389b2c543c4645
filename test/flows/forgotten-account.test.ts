import { expect } from 'chai';
import { decodeJwt } from 'jose';
import type { Account } from '../../src/people/account.ts';
import {
  changeAccount,
  createConnector,
  listGrants,
  requestManagement,
  readAudit,
} from '../support/management-api.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, type Connection, obtainCode, redeem } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, refresh } from '../support/oauth.ts';
import { openSystemStore } from '../support/system-store.ts';
import { type System, useSystem } from '../support/system.ts';

const WHO = /\bgrace\b|\bhopper\b/i;
const DAY = 86_400;

async function readRecord(system: System, id: string): Promise<Account | undefined> {
  const { store } = await openSystemStore(system);
  try {
    return (await store.get<Account>(`account:${id}`))?.value;
  } finally {
    await store.close();
  }
}

describe('Forgetting an account', () => {
  const system = useSystem();
  let elapsed = 0;
  beforeEach(() => advanceClock((elapsed += 60)));

  const accountOf = ({ accessToken }: Connection) => String(decodeJwt(accessToken).sub);

  const isRefused = async ({ server, client, refreshToken }: Connection) =>
    (await refresh(server, client, refreshToken)).body.error === 'invalid_grant';

  it('LOG-05 a forgotten account loses all access, and only an opaque id remains', async () => {
    const connector = await createConnector(system());
    const grace = await connect(system(), connector, { person: 'grace' });
    const ada = await connect(system(), connector);
    const code = await obtainCode(system(), connector, { person: 'grace' });
    const id = accountOf(grace);
    expect(JSON.stringify(await readRecord(system(), id))).to.match(WHO);
    expect(id).not.to.match(WHO);
    const answer = await requestManagement(system(), 'POST', `/accounts/${id}/forget`);
    expect(answer).to.include({ id, isDisabled: false });
    expect(await isAccepted(grace.link, grace.accessToken)).to.equal(false);
    expect(await isRefused(grace)).to.equal(true);
    expect((await redeem(code)).body.error).to.equal('invalid_grant');
    expect(await isAccepted(ada.link, ada.accessToken)).to.equal(true);
    expect(await isRefused(ada)).to.equal(false);

    expect(JSON.stringify(await readRecord(system(), id))).not.to.match(WHO);
    const told = [
      await requestManagement(system(), 'GET', '/accounts?limit=1000'),
      await listGrants(system(), {}),
      await listGrants(system(), { account: id }),
      await requestManagement(system(), 'GET', '/clients'),
      await readAudit(system()),
    ];
    for (const documents of told) expect(JSON.stringify(documents)).not.to.match(WHO);
    expect(JSON.stringify(told[0])).not.to.include(id);
    const ended = (await listGrants(system(), { account: id })).items;
    expect(ended.map(({ state, reason }) => [state, reason])).to.deep.include([
      'ended',
      'account_deleted',
    ]);
    const events = (await readAudit(system())).filter(({ account }) => account === id);
    expect(events.filter(({ event }) => event === 'account_forgotten')).to.have.length(1);
  });

  it('LOG-05 a forgotten person who signs in again gets a new account without sessions or connections', async () => {
    const connector = await createConnector(system());
    const before = await connect(system(), connector, { person: 'grace' });
    const other = openBrowser(system().origins);
    const { url } = authorizeUrl(before.server, before.client, { resource: before.link });
    const open = await other.openConsent(url, 'grace');
    const id = accountOf(before);
    await changeAccount(system(), id, 'forget');
    advanceClock(5);
    const late = requirePage(await other.submit(open, { decision: 'approve' }));
    expect(late.status, 'no code was given').to.equal(400);
    const after = await connect(system(), connector, { person: 'grace' });
    expect(accountOf(after)).to.equal(id);
    expect(await isAccepted(after.link, after.accessToken)).to.equal(true);
    expect(JSON.stringify(await readRecord(system(), id))).to.match(WHO);
    expect(await isAccepted(before.link, before.accessToken)).to.equal(false);
    expect(await isRefused(before)).to.equal(true);
    const legs = before.browser.visited.length;
    await before.browser.visit(url);
    const trip = before.browser.visited.slice(legs).map(({ pathname }) => pathname);
    expect(trip.some((path) => path.endsWith('/callback'))).to.equal(true);
  });

  it('LOG-05 a disabled account that is forgotten stays disabled, and can be enabled', async () => {
    const connector = await createConnector(system());
    const id = accountOf(await connect(system(), connector, { person: 'grace' }));
    await changeAccount(system(), id, 'disable');
    await changeAccount(system(), id, 'forget');
    const { disabledAt, ...record } = (await readRecord(system(), id)) ?? {};
    expect(disabledAt).to.be.a('number');
    expect(JSON.stringify(record)).not.to.match(WHO);
    const refused = await connect(system(), connector, { person: 'grace' }).catch(() => undefined);
    expect(refused).to.equal(undefined);
    await changeAccount(system(), id, 'enable');
    advanceClock(5);
    const after = await connect(system(), connector, { person: 'grace' });
    expect(accountOf(after)).to.equal(id);
  });

  it('LOG-05 forgetting is idempotent, and an unknown account is 404', async () => {
    const connector = await createConnector(system());
    const id = accountOf(await connect(system(), connector, { person: 'grace' }));
    const count = async () =>
      (await readAudit(system())).filter(({ event }) => event === 'account_forgotten').length;
    const before = await count();
    for (const _ of [1, 2, 3]) await changeAccount(system(), id, 'forget');
    expect(await count()).to.equal(before + 1);
    for (const unknown of ['x', 'A'.repeat(27)]) {
      const refused = await changeAccount(system(), unknown, 'forget').catch(String);
      expect(refused).to.include('404');
    }
  });
});

// Redis has its own clock, which the tests cannot move.
describe('An account that is not used any more', () => {
  const system = useSystem();

  it('LOG-05 the account is deleted after the lifetimes in the settings', async () => {
    const connector = await createConnector(system());
    const { accessToken } = await connect(system(), connector, { person: 'grace' });
    const id = String(decodeJwt(accessToken).sub);
    expect(JSON.stringify(await readRecord(system(), id))).to.match(WHO);
    advanceClock(92 * DAY);
    expect(await readRecord(system(), id)).to.equal(undefined);
    expect(JSON.stringify(await requestManagement(system(), 'GET', '/accounts'))).not.to.include(
      id,
    );
  });
});
