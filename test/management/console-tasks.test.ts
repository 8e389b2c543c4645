// What an administrator does, each from the overview in Chromium, with the number of clicks. Searches and fields are filled with the keyboard.
import { expect } from 'chai';
import type { Locator } from 'playwright-core';
import { type Browser, openBrowser, requirePage } from '../support/browser.ts';
import { addCookies, usePage } from '../support/chromium.ts';
import { type Company, startCompany } from '../support/console-data.ts';

describe('The tasks of an administrator in the console', () => {
  const tab = usePage();
  let company: Company;
  let administrator: Browser;
  let clicks = 0;
  before(async () => {
    company = await startCompany(6);
    const { system } = company;
    administrator = openBrowser([...system.origins, system.management]);
    const signIn = requirePage(await administrator.visit(`${system.management}/console`));
    await administrator.submit(signIn, { person: 'ada' });
  });
  after(() => company?.stop());
  beforeEach(async () => {
    await addCookies(tab(), administrator.jar);
    await tab().goto(`${company.system.management}/console/overview`);
    clicks = 0;
  });

  const click = async (target: Locator) => {
    clicks += 1;
    await target.first().click();
  };
  const content = () => tab().locator('#content');
  const link = (name: string) => click(content().getByRole('link', { name }));
  const button = (name: string) => click(content().getByRole('button', { name }));
  const section = (name: string) =>
    click(tab().locator('.sections').getByRole('link', { name, exact: true }));

  async function expectDone(text: string, most: number): Promise<void> {
    await content().getByText(text).first().waitFor();
    expect(clicks).to.be.at.most(most);
  }

  it('a link for a group is created with two clicks', async () => {
    await link('New connector');
    await tab().fill('#name', 'Planning');
    await tab().fill('#audience', 'group:finance');
    await button('Create connector');
    await expectDone('People can use the link now.', 2);
  });

  it('why an app does not work is found with a search and one click', async () => {
    await tab().fill('#everything', 'alan');
    await tab().keyboard.press('Enter');
    await link('Alan Turing');
    await expectDone('No entitlement in the settings file matches this person.', 1);
  });

  it('one app of one person is cut off with four clicks', async () => {
    await section('Connections');
    await click(content().locator('.items summary'));
    const panel = content().locator('.items details[open]');
    await click(panel.locator('summary', { hasText: 'Disconnect' }));
    await click(panel.getByRole('button', { name: 'Disconnect' }));
    await expectDone('was disconnected from', 4);
  });

  it('an app is blocked for everybody with four clicks', async () => {
    await section('Apps');
    await link('Cursor');
    await button('Block this name…');
    await button('Block all apps');
    await expectDone('App blocked.', 4);
  });

  it('a token is minted with three clicks', async () => {
    await section('Tokens');
    await link('New token');
    await tab().fill('#name', 'Report');
    await button('Create token');
    await expectDone('You can’t see it again.', 3);
  });

  it('a machine is created with four clicks, and its connector is chosen from a list', async () => {
    await section('Machines');
    await link('New machine');
    await link('Operations');
    await tab().fill('#name', 'Nightly');
    await button('Create machine');
    await expectDone('Machine created', 4);
  });

  it('the audit log leads to what a server changed with two clicks', async () => {
    await section('Audit log');
    await content().getByText('Orders added refund_order').waitFor();
    await link('Orders');
    await expectDone('Changed tools of Orders', 2);
  });

  it('changed tools are reviewed with two clicks', async () => {
    await link('2 tool changes to review');
    await button('I have seen all');
    await expectDone('Callers see these tools as you saw them.', 2);
    await section('Overview');
    await content().getByText('Connections, last 30 days').waitFor();
    expect(await content().getByText('to review').count()).to.equal(0);
  });

  it('a link is extended with five clicks, one of which shows what the change does', async () => {
    await section('Connectors');
    await link('Board meeting');
    await link('Change…');
    await tab().fill('#expires', '60d');
    await button('Review the changes…');
    await button('Save');
    await expectDone('Changes saved.', 5);
  });

  it('an auditor gets all approvals as CSV with three clicks', async () => {
    await section('Audit log');
    await tab().selectOption('#event', 'consent_approved');
    await button('Search');
    const download = tab().waitForEvent('download');
    await button('Download CSV');
    expect((await download).suggestedFilename()).to.match(/\.csv$/);
    expect(clicks).to.equal(3);
  });
});
