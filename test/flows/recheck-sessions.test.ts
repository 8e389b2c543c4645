// Sessions of browsers with the setting `recheck`.
import { expect } from 'chai';
import { type Browser, openBrowser, requirePage } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import {
  type CompanyProvider,
  companySettings,
  startCompanyProvider,
} from '../support/company-provider.ts';
import { connect, openConsent } from '../support/connection.ts';
import { type Connector, createConnector, readAudit } from '../support/management-api.ts';
import { refresh } from '../support/oauth.ts';
import { startSystem, type System } from '../support/system.ts';

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const ADMINISTRATOR = 'chief';

describe('Sessions of people whom the identity provider rechecks', () => {
  let company: CompanyProvider;
  let system: System;
  let connector: Connector;
  let people = 0;
  before(async () => {
    company = await startCompanyProvider();
    const file = {
      entitlements: [{ match: { group: 'analysts' }, level: 'operations' }],
      management: { administrators: [{ email: `${ADMINISTRATOR}@example.com` }] },
    };
    const provider = { recheck: '1h', scopes: ['openid', 'profile', 'email', 'groups'] };
    system = await startSystem(companySettings(company, provider, file));
    connector = await createConnector(system);
  });
  afterEach(() => {
    company.setFault(undefined);
    restoreClock();
  });
  after(async () => {
    await system.stop();
    await company.stop();
  });

  function hire(subject: string): { subject: string; browser: Browser } {
    const email = `${subject}@example.com`;
    const employee = { name: subject, email, email_verified: true, groups: ['analysts'] };
    company.people.set(subject, employee);
    company.signInAs(subject);
    return { subject, browser: openBrowser([system.auth, system.management, company.issuer]) };
  }
  const hireAnalyst = () => hire(`analyst-${(people += 1)}`);

  function leave({ subject }: { subject: string }): void {
    company.people.delete(subject);
    company.revoke(subject);
  }

  /** Whether the identity provider was asked. */
  async function isAsked(browser: Browser, work: () => Promise<unknown>): Promise<boolean> {
    const before = browser.visited.length;
    await work();
    return browser.visited.slice(before).some(({ origin }) => origin === company.issuer);
  }

  const countApprovals = async () =>
    (await readAudit(system)).filter(({ event }) => event === 'consent_approved').length;

  const openConsole = async (browser: Browser) =>
    requirePage(await browser.visit(`${system.management}/console/connectors`));

  it('CNX-15 a session approves without a new sign-in for one interval, and then asks the provider', async () => {
    const { browser } = hireAnalyst();
    const approve = () => connect(system, connector, { as: { browser } });
    expect(await isAsked(browser, approve)).to.equal(true);
    advanceClock(HOUR - MINUTE);
    expect(await isAsked(browser, approve)).to.equal(false);
    advanceClock(2 * MINUTE);
    expect(await isAsked(browser, approve)).to.equal(true);
    expect(await isAsked(browser, approve)).to.equal(false);
  });

  it('CNX-15 the answer of a recheck extends the session', async () => {
    const { browser } = hireAnalyst();
    const { server, client, refreshToken } = await connect(system, connector, { as: { browser } });
    advanceClock(HOUR);
    expect((await refresh(server, client, refreshToken)).status).to.equal(200);
    const openAccountPage = () => browser.visit(`${system.auth}/account`);
    expect(await isAsked(browser, openAccountPage)).to.equal(false);
    advanceClock(HOUR);
    expect(await isAsked(browser, openAccountPage)).to.equal(true);
  });

  it('CNX-15 a person who left approves nothing with an open session or an open page', async () => {
    const person = hireAnalyst();
    const { browser } = person;
    await connect(system, connector, { as: { browser } });
    advanceClock(HOUR - 10 * MINUTE);
    const { page } = await openConsent(system, connector, { as: { browser } });
    const before = await countApprovals();
    leave(person);
    advanceClock(11 * MINUTE);
    const answer = await browser.submit(page, { decision: 'approve' });
    expect(requirePage(answer).html).to.include('You’re not signed in');
    expect(await isAsked(browser, () => browser.visit(`${system.auth}/account`))).to.equal(true);
    expect(await countApprovals()).to.equal(before);
  });

  it('CNX-15 an administrator who left loses the console after one interval, however often it is used', async () => {
    const chief = hire(ADMINISTRATOR);
    expect((await openConsole(chief.browser)).html).to.include('/console/sign-out');
    const form = await openConsole(chief.browser);
    leave(chief);
    for (let minutes = 20; minutes < 60; minutes += 20) {
      advanceClock(20 * MINUTE);
      expect((await openConsole(chief.browser)).html).to.include('/console/sign-out');
    }
    advanceClock(20 * MINUTE);
    const token = /name="token" value="([^"]+)"/.exec(form.html)?.[1] ?? '';
    const fields = new URLSearchParams({ token, name: 'Late', level: 'analytics' });
    const create = new URL(`${system.management}/console/connectors`);
    await chief.browser.post(form, create, fields);
    expect((await openConsole(chief.browser)).html).to.not.include('/console/sign-out');
    const created = (await readAudit(system)).filter(({ event }) => event === 'connector_created');
    expect(created).to.have.length(1);
  });
});
