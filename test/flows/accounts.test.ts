// RFC 6749 sections 5.2 and 10.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import {
  changeAccount,
  createConnector,
  readAudit,
  requestManagement,
} from '../support/management-api.ts';
import { isConsentPage, openBrowser, requirePage } from '../support/browser.ts';
import { advanceClock, freezeClockAt, restoreClock } from '../support/clock.ts';
import { connect, type Connection, obtainCode, redeem } from '../support/connection.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { authorizeUrl, refresh } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';
import { until } from '../support/until.ts';

describe('Disabling an account', () => {
  const system = useSystem();

  // An account that is enabled within one second rejects what was issued in that second.
  let elapsed = 0;
  beforeEach(() => advanceClock((elapsed += 60)));

  const accountOf = ({ accessToken }: Connection) => String(decodeJwt(accessToken).sub);

  const askAgain = ({ browser, server, client, link }: Connection) =>
    browser.visit(authorizeUrl(server, client, { resource: link }).url);

  async function expectRefused({ server, client, refreshToken }: Connection): Promise<void> {
    const { status, body } = await refresh(server, client, refreshToken);
    expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
  }

  it("COD-05 REF-09 a disabled account's calls, refreshes and code exchanges are rejected", async () => {
    const connector = await createConnector(system());
    const ada = await connect(system(), connector);
    const grace = await connect(system(), connector, { person: 'grace' });
    const code = await obtainCode(system(), connector);
    expect(await isAccepted(ada.link, ada.accessToken)).to.equal(true);
    await changeAccount(system(), accountOf(ada), 'disable');
    const { status, headers } = await callTool(ada.link, ada.accessToken, 'club_overview');
    expect(status).to.equal(401);
    expect(headers.get('www-authenticate')).to.include('error="invalid_token"');
    await expectRefused(ada);
    expect((await redeem(code)).body.error).to.equal('invalid_grant');
    expect(await isAccepted(grace.link, grace.accessToken)).to.equal(true);
    expect((await refresh(grace.server, grace.client, grace.refreshToken)).status).to.equal(200);
    await changeAccount(system(), accountOf(ada), 'enable');
  });

  it('SES-07 a disabled account sees no consent page and cannot approve, in its old session or after a new sign-in', async () => {
    const connector = await createConnector(system());
    const ada = await connect(system(), connector);
    const open = requirePage(await askAgain(ada));
    expect(isConsentPage(open)).to.equal(true);
    await changeAccount(system(), accountOf(ada), 'disable');
    const refused = requirePage(await ada.browser.submit(open, { decision: 'approve' }));
    expect(isConsentPage(refused)).to.equal(false);
    const again = requirePage(await askAgain(ada));
    expect([again.status, isConsentPage(again)]).to.deep.equal([403, false]);
    const elsewhere = openBrowser(system().origins);
    const { url } = authorizeUrl(ada.server, ada.client, { resource: ada.link });
    const anew = await elsewhere.openConsent(url, 'ada');
    expect([anew.status, isConsentPage(anew)]).to.deep.equal([403, false]);
    await changeAccount(system(), accountOf(ada), 'enable');
  });

  it('SES-07 an account that was enabled again must sign in again before it can approve an old page', async () => {
    const ada = await connect(system(), await createConnector(system()));
    const other = openBrowser(system().origins);
    const { url } = authorizeUrl(ada.server, ada.client, { resource: ada.link });
    const open = await other.openConsent(url, 'ada');
    await changeAccount(system(), accountOf(ada), 'disable');
    advanceClock(5);
    await changeAccount(system(), accountOf(ada), 'enable');
    advanceClock(5);
    const legs = other.visited.length;
    await other.submit(open, { decision: 'approve' });
    const trip = other.visited.slice(legs).map(({ pathname }) => pathname);
    expect(trip.some((path) => path.endsWith('/callback'))).to.equal(true);
  });

  it('SES-07 an account that was enabled by a clock ahead of ours gets a page to retry, and no redirect loop', async () => {
    const connector = await createConnector(system());
    const ada = await connect(system(), connector);
    advanceClock(30);
    await changeAccount(system(), accountOf(ada), 'disable');
    await changeAccount(system(), accountOf(ada), 'enable');
    advanceClock(-30);
    const page = requirePage(await askAgain(ada));
    expect([page.status, isConsentPage(page)]).to.deep.equal([503, false]);
    expect(page.headers.get('retry-after')).to.match(/^\d+$/);
    advanceClock(31);
    expect(isConsentPage(requirePage(await askAgain(ada)))).to.equal(true);
    elapsed += 60;
  });

  it('an account that was enabled again can sign in and connect, and its earlier connections are not restored', async () => {
    const connector = await createConnector(system());
    const before = await connect(system(), connector);
    const account = accountOf(before);
    await changeAccount(system(), account, 'disable');
    advanceClock(5);
    await changeAccount(system(), account, 'enable');
    advanceClock(5);
    expect(await isAccepted(before.link, before.accessToken)).to.equal(false);
    await expectRefused(before);
    const { visited } = before.browser;
    const legs = visited.length;
    expect(isConsentPage(requirePage(await askAgain(before)))).to.equal(true);
    expect(visited.slice(legs).some(({ pathname }) => pathname.endsWith('/callback'))).to.equal(
      true,
    );
    const after = await connect(system(), connector, { as: before });
    expect(accountOf(after)).to.equal(account);
    expect(await isAccepted(after.link, after.accessToken)).to.equal(true);
    expect((await refresh(after.server, after.client, after.refreshToken)).status).to.equal(200);
    const events = (await readAudit(system())).filter((item) => item.account === account);
    const names = events.map(({ event }) => event);
    expect(names.filter((event) => event.startsWith('account_')).slice(-2)).to.deep.equal([
      'account_disabled',
      'account_enabled',
    ]);
  });
});

describe('A sign-in within the second in which an account was enabled or deleted', () => {
  const system = useSystem();
  afterEach(restoreClock);

  for (const [person, changes] of [
    ['ada', ['disable', 'enable']],
    ['grace', ['forget']],
  ] as const)
    it(`waits for the next second, and goes on (${changes.join(', ')})`, async () => {
      const before = await connect(system(), await createConnector(system()), { person });
      const id = String(decodeJwt(before.accessToken).sub);
      const second = Math.floor(Date.now() / 1000) + 60;
      freezeClockAt(second);
      for (const change of changes) await changeAccount(system(), id, change);
      const { url } = authorizeUrl(before.server, before.client, { resource: before.link });
      const signIn = openBrowser(system().origins).openConsent(url, person);
      await until('the sign-in', async () => {
        const accounts = await requestManagement(system(), 'GET', '/accounts');
        return JSON.stringify(accounts).includes(
          new Date(second * 1000).toISOString().slice(0, 19),
        );
      });
      advanceClock(1);
      const page = await signIn;
      expect([page.status, isConsentPage(page)]).to.deep.equal([200, true]);
    });
});
