import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { openBrowser } from '../support/browser.ts';
import { addCookies, usePage } from '../support/chromium.ts';
import { connectSdkV1 } from '../support/sdk.ts';
import { useSystem } from '../support/system.ts';

describe('The console in Chromium', () => {
  const system = useSystem();
  const tab = usePage();

  const press = (page: Page, name: string) =>
    page.getByRole('button', { name, exact: true }).click();

  it('a new administrator can create a connector, connect an app and end the connection', async () => {
    const page = tab();
    const said: string[] = [];
    page.on('console', (message) => said.push(message.text()));
    page.on('pageerror', (error) => said.push(String(error)));
    await page.goto(`${system().management}/console`);
    await page.getByRole('button', { name: 'Ada Lovelace' }).click();
    await page.getByRole('link', { name: 'New connector' }).click();
    await page.getByLabel('Name').fill('Front desk');
    await page.getByLabel('Maximum access').selectOption('operations');
    await press(page, 'Create connector');
    await page.getByRole('heading', { name: 'Front desk' }).waitFor();
    const link = await page.locator('#connect-link').innerText();
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Copy the link of Front desk' }).click();
    await page.getByRole('button', { name: 'Copied', exact: true }).waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).to.equal(link);
    await page.getByText('How to add it to each app', { exact: true }).click();
    await page.getByText('Claude Code', { exact: true }).click();
    const command = await page.locator('pre:visible').innerText();
    expect(command).to.equal(`claude mcp add --transport http front-desk ${link}`);
    const account = await page
      .getByText(/\/account$/)
      .last()
      .innerText();

    const browser = openBrowser(system().origins);
    const authorize = async (url: URL | string) => {
      const consent = await browser.openConsent(url);
      const text = consent.html.replace(/<[^>]*>/g, '');
      expect(text).to.include(`You can disconnect it at any time at ${system().auth}/account.`);
      return browser.authorize(url);
    };
    const client = await connectSdkV1(link, { browser: { authorize }, method: 'none' });
    expect(await client.callTool('club_overview')).to.have.property('members');

    await addCookies(page, browser.jar);
    await page.goto(account);
    await page.getByText('Front desk').waitFor();
    await page.getByText('Disconnect…', { exact: true }).click();
    await press(page, 'Disconnect');
    await page.getByText('was disconnected from').waitFor();
    const refused = await client.callTool('club_overview').then(
      () => 'answered',
      () => 'refused',
    );
    expect(refused).to.equal('refused');
    await client.close();

    await page.goto(`${system().management}/console`);
    await page.getByRole('link', { name: 'Connections' }).click();
    expect(await page.locator('main').innerText()).to.include('The person disconnected the app.');
    for (const name of ['Tokens', 'Apps', 'People', 'Audit log', 'Health', 'Connectors']) {
      await page.getByRole('link', { name, exact: true }).click();
      await page.getByRole('heading', { level: 1, name }).waitFor();
    }
    await page.getByRole('link', { name: 'Front desk' }).click();
    await page.getByText('Revoke…').click();
    await press(page, 'Revoke connector');
    await page.getByText('The link no longer works').first().waitFor();
    await press(page, 'Sign out');
    await page.getByRole('heading', { name: 'You’re signed out' }).waitFor();
    expect(said).to.deep.equal([]);
  });
});
