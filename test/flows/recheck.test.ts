import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { advanceClock, restoreClock } from '../support/clock.ts';
import {
  type CompanyProvider,
  companySettings,
  startCompanyProvider,
} from '../support/company-provider.ts';
import { connect, type Connection } from '../support/connection.ts';
import type { Account, Recheck } from '../../src/people/account.ts';
import type { Level } from '../../src/permission-levels.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import {
  changeAccount,
  createConnector,
  readAudit,
  requestManagement,
  showGrant,
} from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { openSystemStore } from '../support/system-store.ts';
import { type LogLine, startSystem, type System } from '../support/system.ts';
import { until } from '../support/until.ts';

const HOUR = 3600;
const DAY = 24 * HOUR;
const ANALYST = { match: { group: 'analysts' }, level: 'operations' };
const OWNER = { match: { group: 'owners' }, level: 'full' };

let people = 0;
const log: LogLine[] = [];

describe('Rechecks at the identity provider', () => {
  let company: CompanyProvider;
  let system: System;
  let link: string;
  before(async () => {
    company = await startCompanyProvider();
    const file = { entitlements: [ANALYST, OWNER] };
    const provider = { recheck: '24h', scopes: ['openid', 'profile', 'email', 'groups'] };
    system = await startSystem({ ...companySettings(company, provider, file), log });
    ({ link } = await createConnector(system, { level: 'full' }));
  });
  afterEach(() => {
    company.setFault(undefined);
    restoreClock();
  });
  after(async () => {
    await system.stop();
    await company.stop();
  });

  /** Connects an app of a new person. */
  async function hire(groups = ['analysts'], level: Level = 'operations') {
    people += 1;
    const subject = `employee-${people}`;
    const email = `${subject}@example.com`;
    company.people.set(subject, { name: subject, email, email_verified: true, groups });
    company.signInAs(subject);
    const browser = openBrowser([system.auth, company.issuer]);
    const connection = await connect(system, { link }, { level, as: { browser } });
    return { subject, ...connection, grant: String(decodeJwt(connection.accessToken).grant_id) };
  }

  const openBrowserOf = ({ subject }: { subject: string }) => {
    company.signInAs(subject);
    return openBrowser([system.auth, company.issuer]);
  };

  /** Connects another app of the person, in the same browser unless another is given. */
  async function connectAgain(
    earlier: Awaited<ReturnType<typeof hire>>,
    browser = earlier.browser,
  ) {
    company.signInAs(earlier.subject);
    const connection = await connect(system, { link }, { as: { browser } });
    return { ...connection, grant: String(decodeJwt(connection.accessToken).grant_id) };
  }

  const accountOf = ({ accessToken }: Connection) => String(decodeJwt(accessToken).sub);

  async function storedAccount(connection: Connection): Promise<Account> {
    const { store } = await openSystemStore(system);
    const found = await store.get<Account>(`account:${accountOf(connection)}`);
    await store.close();
    if (!found) throw new Error('the account is not there');
    return found.value;
  }

  async function changeStored(connection: Connection, change: (recheck?: Recheck) => object) {
    const account = await storedAccount(connection);
    const { store } = await openSystemStore(system);
    const value = { ...account, recheck: change(account.recheck) };
    await store.set(`account:${account.id}`, value, DAY);
    await store.close();
  }

  const renew = async (connection: Connection) => {
    const answer = await refresh(connection.server, connection.client, connection.refreshToken);
    connection.refreshToken = answer.body.refresh_token ?? connection.refreshToken;
    return answer;
  };

  it('the provider is asked at a refresh at most once per interval, with the token it rotated to', async () => {
    const connection = await hire();
    const before = company.refreshes();
    expect((await renew(connection)).status).to.equal(200);
    expect(company.refreshes()).to.equal(before);
    for (let day = 1; day <= 3; day += 1) {
      advanceClock(DAY);
      expect((await renew(connection)).status).to.equal(200);
      expect((await renew(connection)).status).to.equal(200);
      expect(company.refreshes()).to.equal(before + day);
    }
  });

  it('CNX-11 the entitlements follow the claims at the provider', async () => {
    const connection = await hire(['owners'], 'full');
    company.people.get(connection.subject)?.groups.splice(0, 1, 'analysts');
    expect((await renew(connection)).body.scope).to.equal('full offline_access');
    advanceClock(DAY);
    expect((await renew(connection)).body.scope).to.equal('operations offline_access');
    company.people.get(connection.subject)?.groups.splice(0, 1);
    advanceClock(DAY);
    expect((await renew(connection)).body.error).to.equal('invalid_grant');
    expect(await showGrant(system, connection.grant)).to.include({ reason: 'not_entitled' });
    company.people.get(connection.subject)?.groups.push('owners');
    expect((await renew(connection)).status).to.equal(400);
    advanceClock(DAY);
    expect((await renew(connection)).body.scope).to.equal('full offline_access');
  });

  it('CNX-11 a person whom the provider refuses loses all connections, sessions and access tokens', async () => {
    const first = await hire();
    const second = await connectAgain(first);
    advanceClock(DAY);
    company.people.delete(first.subject);
    const { accessToken } = second;
    expect((await renew(first)).body.error).to.equal('invalid_grant');
    expect(await isAccepted(link, accessToken)).to.equal(false);
    expect((await renew(second)).body.error).to.equal('invalid_grant');
    const ended = { state: 'ended', reason: 'identity_provider_ended' };
    for (const { grant } of [first, second]) {
      expect(await showGrant(system, grant)).to.include(ended);
      const audit = (await readAudit(system)).filter(({ grantId }) => grantId === grant);
      const item = audit.find(({ event }) => event === 'grant_ended');
      expect(item).to.include({ reason: ended.reason });
    }
    expect((await storedAccount(first)).recheck).to.equal(undefined);
    const page = requirePage(await first.browser.visit(`${system.auth}/account`));
    expect(page.html, 'the provider refuses the sign-in').to.include('You’re not signed in');
  });

  it('the account page says that the provider ended a connection', async () => {
    const connection = await hire();
    const employee = company.people.get(connection.subject);
    advanceClock(DAY);
    company.people.delete(connection.subject);
    await renew(connection);
    advanceClock(2);
    if (employee) company.people.set(connection.subject, employee);
    company.signInAs(connection.subject);
    const page = requirePage(await connection.browser.visit(`${system.auth}/account`));
    expect(page.html).to.include('Your company account was closed');
    const { status } = await renew(await connectAgain(connection));
    expect(status).to.equal(200);
    expect((await renew(connection)).body.error).to.equal('invalid_grant');
  });

  it('an unreachable provider changes nothing until twice the interval has passed since its last answer', async () => {
    const connection = await hire();
    company.setFault('down');
    advanceClock(2 * DAY - 60);
    expect((await renew(connection)).status).to.equal(200);
    advanceClock(60);
    const { status, body, headers } = await renew(connection);
    expect([status, body.error]).to.deep.equal([503, 'temporarily_unavailable']);
    expect(headers.get('retry-after')).to.match(/^\d+$/);
    const grant = await showGrant(system, connection.grant);
    expect(grant.state).to.equal('active');
    expect(grant.refusals[0]).to.include({ reason: 'identity_provider_unavailable' });
    company.setFault(undefined);
    expect((await renew(connection)).status).to.equal(200);
  });

  it('a refresh does not wait for a slow provider, whose answer counts when it comes', async () => {
    const connection = await hire();
    advanceClock(DAY);
    company.setFault('hold');
    company.people.delete(connection.subject);
    expect((await renew(connection)).status).to.equal(200);
    expect((await renew(connection)).status).to.equal(200);
    company.setFault(undefined);
    company.release();
    await until('the connection ends', async () => {
      const { state } = await showGrant(system, connection.grant);
      return state === 'ended';
    });
  });

  it('CNX-16 a refusal of a token that the person has replaced by signing in ends nothing', async () => {
    const connection = await hire();
    advanceClock(DAY);
    company.setFault('hold');
    expect((await renew(connection)).status).to.equal(200);
    company.setFault(undefined);
    company.revoke(connection.subject);
    const second = await connectAgain(connection, openBrowserOf(connection));
    const before = company.refreshes();
    company.release();
    for (const app of [connection, second]) expect((await renew(app)).status).to.equal(200);
    advanceClock(DAY);
    for (const app of [connection, second]) expect((await renew(app)).status).to.equal(200);
    expect(company.refreshes()).to.equal(before + 1);
  });

  it('a refusal of a token that a later sign-in did not replace ends nothing, and the person signs in again after the interval', async () => {
    const connection = await hire();
    advanceClock(DAY);
    company.setFault('hold');
    expect((await renew(connection)).status).to.equal(200);
    company.setFault(undefined);
    company.revoke(connection.subject);
    company.issueRefreshTokens(false);
    const second = await connectAgain(connection, openBrowserOf(connection));
    company.issueRefreshTokens(true);
    company.release();
    await until(
      'the refusal to be handled',
      async () => !(await storedAccount(connection)).recheck?.token,
    );
    for (const app of [connection, second]) expect((await renew(app)).status).to.equal(200);
    advanceClock(DAY);
    expect((await renew(connection)).body.error).to.equal('invalid_grant');
    expect(await showGrant(system, connection.grant)).to.include({ reason: 'sign_in_again' });
  });

  it('a lost response to a rotation ends the connections, because the provider then refuses the earlier token', async () => {
    const connection = await hire();
    advanceClock(DAY);
    company.setFault('lose');
    expect((await renew(connection)).status).to.equal(200);
    company.setFault(undefined);
    advanceClock(60);
    expect((await renew(connection)).body.error).to.equal('invalid_grant');
    const ended = { state: 'ended', reason: 'identity_provider_ended' };
    expect(await showGrant(system, connection.grant)).to.include(ended);
  });

  it('after a process was killed while it asked, a refusal makes the person sign in, and connections are kept', async () => {
    const connection = await hire();
    advanceClock(DAY);
    await changeStored(connection, (recheck) => ({
      ...recheck,
      // Or by a process whose clock is more than three minutes behind.
      asking: { by: 'killed', at: Date.now() / 1000 - 200 },
    }));
    company.revoke(connection.subject);
    const before = company.refreshes();
    expect((await renew(connection)).status, 'another process may still ask').to.equal(200);
    expect(company.refreshes()).to.equal(before);
    advanceClock(100);
    expect((await renew(connection)).body.error).to.equal('invalid_grant');
    const grant = await showGrant(system, connection.grant);
    expect(grant).to.include({ state: 'refused', reason: 'sign_in_again' });
    await connectAgain(connection, openBrowserOf(connection));
    expect((await renew(connection)).status).to.equal(200);
  });

  it("CNX-12 the provider's token is erased when an administrator disables or forgets the person", async () => {
    for (const change of ['disable', 'forget'] as const) {
      const connection = await hire();
      expect((await storedAccount(connection)).recheck?.token).to.be.a('string');
      const shown = await requestManagement(system, 'GET', `/accounts/${accountOf(connection)}`);
      expect(JSON.stringify(shown)).to.not.include('recheck');
      await changeAccount(system, accountOf(connection), change);
      expect(await storedAccount(connection)).to.not.have.property('recheck');
    }
  });
});
