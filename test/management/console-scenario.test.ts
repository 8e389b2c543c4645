import { expect } from 'chai';
import { decodeJwt } from 'jose';
import type { Locator, Page } from 'playwright-core';
import { recordAudit } from '../../src/audit/audit.ts';
import { auditServices } from '../support/audit-services.ts';
import { addCookies, usePage } from '../support/chromium.ts';
import { connect } from '../support/connection.ts';
import { useConsole } from '../support/console.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { openSystemStore } from '../support/system-store.ts';
import { until } from '../support/until.ts';

/** An administrator in Chromium who knows only what the pages show. Each click and each field counts as one step. */
class Visitor {
  steps = 0;
  readonly #page: Page;

  constructor(page: Page) {
    this.#page = page;
  }

  /** Clicks what has this visible name, within the smallest part of the page that also shows `beside`. */
  async click(role: 'link' | 'button', name: string, beside?: string): Promise<void> {
    await this.#find(this.#page.getByRole(role, { name, exact: true }), beside).click();
    // A click ends when the next page begins to arrive.
    await this.#page.waitForLoadState('domcontentloaded');
    this.steps += 1;
  }

  /** Opens the disclosure with this visible text. */
  async open(summary: string, beside?: string): Promise<void> {
    await this.#find(this.#page.locator('summary', { hasText: summary }), beside).click();
    this.steps += 1;
  }

  async fill(label: string, value: string): Promise<void> {
    await this.#page.getByLabel(label, { exact: true }).fill(value);
    this.steps += 1;
  }

  async choose(label: string, option: string): Promise<void> {
    await this.#page.getByLabel(label, { exact: true }).selectOption({ label: option });
    this.steps += 1;
  }

  /** The visible text. */
  text(): Promise<string> {
    return this.#page.locator('main').innerText();
  }

  #find(target: Locator, beside: string | undefined): Locator {
    if (beside === undefined) return target.first();
    const parts = this.#page.locator('li, tr', { hasText: beside }).filter({ has: target });
    return parts.last().locator(target).first();
  }
}

describe('an administrator who follows only the visible texts of the console', () => {
  const { system, signIn, consoleUrl } = useConsole();
  const tab = usePage();

  async function visitor(): Promise<Visitor> {
    await addCookies(tab(), (await signIn()).browser.jar);
    await tab().goto(consoleUrl(''));
    return new Visitor(tab());
  }

  it('gets a connect link in three steps', async () => {
    const administrator = await visitor();
    await administrator.click('link', 'New connector');
    await administrator.fill('Name', 'Auditors');
    await administrator.click('button', 'Create connector');
    expect(await administrator.text()).to.match(/https?:\/\/\S+\/connect\/\w{22}\/mcp/);
    expect(administrator.steps).to.equal(3);
  });

  it("finds out in two steps why one person's app stopped, and what to do", async () => {
    const connector = await createConnector(system(), { name: 'Former link' });
    await connect(system(), connector, { person: 'grace' });
    await requestManagement(system(), 'DELETE', `/connectors/${connector.id}`);
    const administrator = await visitor();
    await administrator.click('link', 'People');
    await administrator.click('link', 'Grace Hopper');
    expect(await administrator.text())
      .to.include('The connector was revoked.')
      .and.include('To reconnect the person, send them another connector’s link.');
    expect(administrator.steps).to.equal(2);
  });

  it('cuts off one app of one person in four steps, and no other app', async () => {
    const [kept, cut] = await Promise.all(
      ['Kept link', 'Cut link'].map((name) => createConnector(system(), { name })),
    );
    if (!kept || !cut) throw new Error('both links are needed');
    const other = await connect(system(), kept, { person: 'grace' });
    const { accessToken } = await connect(system(), cut, { person: 'grace' });
    const administrator = await visitor();
    await administrator.click('link', 'People');
    await administrator.click('link', 'Grace Hopper');
    await administrator.open('Disconnect', 'Cut link');
    await administrator.click('button', 'Disconnect now', 'Cut link');
    expect(await administrator.text()).to.include('Grace Hopper');
    expect(administrator.steps).to.equal(4);
    expect(await isAccepted(cut.link, accessToken)).to.equal(false);
    expect(await isAccepted(kept.link, other.accessToken)).to.equal(true);
  });
});

describe('an auditor who is new to the console, and follows only its visible texts', () => {
  const { system, signIn, consoleUrl } = useConsole({
    file: { management: { administrators: [{ subject: 'ada', role: 'auditor' }] } },
  });
  const tab = usePage();
  const DAY = 86_400;

  before(async () => {
    const connector = await createConnector(system(), { name: 'Accounts office' });
    await requestManagement(system(), 'PATCH', `/connectors/${connector.id}`, { level: 'full' });
    const { accessToken, client } = await connect(system(), connector, { person: 'grace' });
    const account = String(decodeJwt(accessToken).sub);
    const about = { account, clientId: client.id, connector: connector.id };
    const yesterday = (Math.floor(Date.now() / 1000 / DAY) - 0.5) * DAY;
    const { store } = await openSystemStore(system());
    const call = { event: 'call', outcome: 'answered', ...about };
    const record = (item: object, at: number) =>
      recordAudit(auditServices(store, at), { ...call, ...item });
    await record({ tool: 'export_cards' }, yesterday - 2 * DAY);
    await record({ tool: 'member_visits' }, yesterday);
    const refused = { outcome: 'refused', reason: 'forbidden' };
    await record({ tool: 'payment_details', ...refused }, yesterday);
    await store.close();
    await until('the log to be verified', async () => {
      const verified = await requestManagement(system(), 'GET', '/audit/verification');
      return (verified as { verifiedAt?: string }).verifiedAt !== undefined;
    });
  });

  async function visitor(): Promise<Visitor> {
    await addCookies(tab(), (await signIn()).browser.jar);
    await tab().goto(consoleUrl(''));
    return new Visitor(tab());
  }

  it('finds out in four steps who called a tool last week', async () => {
    const auditor = await visitor();
    await auditor.click('link', 'Audit log');
    await auditor.fill('Tool', 'export_cards');
    await auditor.choose('Period', 'The last 7 days');
    await auditor.click('button', 'Search');
    expect(await auditor.text())
      .to.include('called export_cards for Grace Hopper')
      .and.not.include('member_visits');
    expect(auditor.steps).to.equal(4);
  });

  it("finds out in three steps what one person's app read yesterday", async () => {
    const auditor = await visitor();
    await auditor.click('link', 'People');
    await auditor.click('link', 'Grace Hopper');
    await auditor.click('link', 'Yesterday', 'Accounts office');
    expect(await auditor.text())
      .to.include('Test client called member_visits')
      .and.not.include('export_cards');
    expect(auditor.steps).to.equal(3);
  });

  it("finds out in four steps who raised a connector's level", async () => {
    const auditor = await visitor();
    await auditor.click('link', 'Connectors');
    await auditor.click('link', 'Accounts office');
    await auditor.click('link', 'See all in the audit log');
    await auditor.open('Details', 'changed the connector');
    expect(await auditor.text())
      .to.include('Management API key “default” changed the connector Accounts office')
      .and.include('"before":{"level":"operations"},"after":{"level":"full"}');
    expect(auditor.steps).to.equal(4);
  });

  it('finds out in one step whether anything was removed', async () => {
    const auditor = await visitor();
    await auditor.click('link', 'Audit log');
    expect(await auditor.text()).to.include(
      'No sign of tampering. The entries of the last day are checked once a day. Last check',
    );
    expect(auditor.steps).to.equal(1);
  });

  it('finds out in four steps who was refused and why', async () => {
    const auditor = await visitor();
    await auditor.click('link', 'Audit log');
    await auditor.choose('Outcome', 'Refused');
    await auditor.click('button', 'Search');
    await auditor.open('Details', 'tried to call payment_details');
    expect(await auditor.text())
      .to.include('Test client tried to call payment_details for Grace Hopper')
      .and.match(/Reason\s+forbidden/);
    expect(auditor.steps).to.equal(4);
  });
});
