import { expect } from 'chai';
import type { Browser, Page } from '../support/browser.ts';
import { requirePage } from '../support/browser.ts';
import { connect } from '../support/connection.ts';
import { useConsole } from '../support/console.ts';
import { parseForms, unescapeHtml } from '../support/html-forms.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';

/** An administrator who knows only what the pages show. Each link, field, disclosure and button counts as one step. */
class Visitor {
  steps = 0;
  readonly #browser: Browser;
  page: Page;

  constructor(browser: Browser, page: Page) {
    this.#browser = browser;
    this.page = page;
  }

  /** Clicks the first link with this text after the text `after`. */
  async follow(text: string, after = ''): Promise<void> {
    const link = [...this.#rest(after).matchAll(/<a\b[^>]*href="([^"]*)"[^>]*>([\s\S]*?)<\/a>/g)];
    const [, href] = link.find(([, , inner = '']) => visibleText(inner) === text) ?? [];
    if (href === undefined) throw new Error(`no link ${text}`);
    this.steps += 1;
    this.page = requirePage(
      await this.#browser.visit(new URL(unescapeHtml(href), this.page.url).href),
    );
  }

  /** Fills in the fields with these labels and presses the button. A button below a closed disclosure costs two steps. */
  async press(text: string, fields: Record<string, string> = {}, after = ''): Promise<void> {
    const rest = this.#rest(after);
    const forms = [...rest.matchAll(/<form\b[\s\S]*?<\/form>/g)];
    const found = forms.find(([html]) =>
      [...html.matchAll(/<button\b[^>]*>([\s\S]*?)<\/button>/g)].some(
        ([, inner = '']) => visibleText(inner) === text,
      ),
    );
    const [form] = found ? parseForms(found[0], this.page.url) : [];
    if (!found || !form) throw new Error(`no button ${text}`);
    const before = rest.slice(0, found.index);
    const isHidden = before.lastIndexOf('<details') > before.lastIndexOf('</details>');
    const body = new URLSearchParams();
    for (const { name, value, kind } of form.controls) if (kind !== 'button') body.set(name, value);
    for (const [label, value] of Object.entries(fields)) body.set(nameOf(found[0], label), value);
    this.steps += Object.keys(fields).length + (isHidden ? 2 : 1);
    this.page = requirePage(await this.#browser.post(this.page, form.action, body));
  }

  /** The visible text after the text `after`. */
  text(after = ''): string {
    return visibleText(this.#rest(after));
  }

  #rest(after: string): string {
    const { html } = this.page;
    const index = html.indexOf(after);
    if (index === -1) throw new Error(`the page does not show ${after}`);
    return html.slice(index);
  }
}

function visibleText(html: string): string {
  return unescapeHtml(html.replaceAll(/<[^>]*>/g, ' '))
    .replaceAll(/\s+/g, ' ')
    .trim();
}

function nameOf(form: string, label: string): string {
  const labels = [...form.matchAll(/<label for="([^"]+)">([\s\S]*?)<\/label>/g)];
  const [, id] = labels.find(([, , inner = '']) => visibleText(inner) === label) ?? [];
  if (id === undefined) throw new Error(`no field ${label}`);
  return id;
}

describe('an administrator who follows only the visible texts of the console', function () {
  this.timeout(30_000);
  const { system, signIn } = useConsole();

  async function visitor(): Promise<Visitor> {
    const { browser, page } = await signIn();
    return new Visitor(browser, page);
  }

  it('gets a connect link in three steps', async () => {
    const administrator = await visitor();
    await administrator.follow('New connector');
    await administrator.press('Create connector', { Name: 'Auditors' });
    expect(administrator.text()).to.match(/https?:\/\/\S+\/connect\/\w{22}\/mcp/);
    expect(administrator.steps).to.equal(3);
  });

  it("finds out in two steps why one person's app stopped, and what to do", async () => {
    const connector = await createConnector(system(), { name: 'Former link' });
    await connect(system(), connector, { person: 'grace' });
    await requestManagement(system(), 'DELETE', `/connectors/${connector.id}`);
    const administrator = await visitor();
    await administrator.follow('People');
    await administrator.follow('Grace Hopper');
    expect(administrator.text('id="ended"'))
      .to.include('The connect link was revoked.')
      .and.include('Create a connector and give its connect link to the person.');
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
    await administrator.follow('People');
    await administrator.follow('Grace Hopper');
    await administrator.press('Disconnect now', {}, 'Cut link');
    expect(administrator.text()).to.include('Grace Hopper');
    expect(administrator.steps).to.equal(4);
    expect(await isAccepted(cut.link, accessToken)).to.equal(false);
    expect(await isAccepted(kept.link, other.accessToken)).to.equal(true);
  });
});
