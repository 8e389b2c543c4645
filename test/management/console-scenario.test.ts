import { expect } from 'chai';
import type { Locator, Page } from 'playwright-core';
import { addCookies, usePage } from '../support/chromium.ts';
import { connect } from '../support/connection.ts';
import { useConsole } from '../support/console.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';

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

describe('an administrator who follows only the visible texts of the console', function () {
  this.timeout(30_000);
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
