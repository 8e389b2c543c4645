import { expect } from 'chai';
import { connect } from '../support/connection.ts';
import { formTokenIn, useConsole } from '../support/console.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { changeSettings } from '../support/settings-file.ts';

const ADMINISTRATORS = [{ subject: 'ada' }, { subject: 'grace', role: 'operator' }];

describe('The page of the console that reloads the settings', () => {
  const { system, signIn, open, send } = useConsole({
    file: { management: { administrators: ADMINISTRATORS } },
  });
  let undo: (() => void)[] = [];
  const change = (changes: Record<string, unknown>) =>
    void undo.push(changeSettings(system(), changes));
  afterEach(async () => {
    for (const restore of undo.toReversed()) restore();
    undo = [];
    await requestManagement(system(), 'POST', '/settings/reload');
  });

  it('names the settings and the connections that would change, and changes them when pressed', async () => {
    const connector = await createConnector(system(), { name: 'Figures', level: 'full' });
    await connect(system(), connector, { person: 'grace', level: 'operations' });
    change({
      productName: 'Renamed',
      entitlements: [{ match: { subject: 'ada' }, level: 'full' }],
    });
    const { browser, page } = await signIn('/settings');
    expect(page.html).to.include('productName').and.include('entitlements');
    expect(page.html)
      .to.match(/Test client.* of .*Grace Hopper/s)
      .and.include('Stops:');
    const after = await send(browser, page, '/settings', { token: formTokenIn(page) });
    expect(after.url.pathname).to.equal('/console/health');
    expect(after.html).to.include('Settings reloaded').and.include('Renamed');
  });

  it('says which setting is wrong, and offers no button', async () => {
    change({ drain: 'never' });
    const { page } = await signIn('/settings');
    expect(page.html).to.include('drain: given').and.include('so nothing changes');
    expect(page.html).to.not.include('action="/console/settings"');
  });

  it('an operator does not find it on the page about health, and is refused', async () => {
    const { browser, page } = await signIn('/health', 'grace');
    expect(page.html).to.not.include('/console/settings');
    expect((await open(browser, '/settings', 'grace')).status).to.equal(403);
    const { page: own } = await signIn('/health');
    expect(own.html).to.include('/console/settings');
  });

  it('of an administrator who leaves the settings, open sessions end, and a lower role applies at once', async () => {
    const { browser } = await signIn('/settings');
    const { browser: other } = await signIn('/health', 'grace');
    expect((await open(other, '/connectors/new', 'grace')).status).to.equal(200);
    change({ management: { administrators: [{ subject: 'ada', role: 'viewer' }] } });
    await requestManagement(system(), 'POST', '/settings/reload');
    expect((await open(browser, '/settings')).status).to.equal(403);
    expect((await open(other, '/connectors/new', 'grace')).status).to.equal(403);
  });
});
