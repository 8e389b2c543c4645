import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { type Browser, type Page, requirePage } from '../support/browser.ts';
import { connect } from '../support/connection.ts';
import { useConsole } from '../support/console.ts';
import {
  type Connector,
  createConnector,
  requestManagement,
  revokeConnector,
  showConnector,
} from '../support/management-api.ts';
import { mint } from '../links/minted-tokens/minting.ts';

describe('the page of the console that changes a record', () => {
  const { system, signIn, open, audited } = useConsole();

  const edit = ({ id }: Pick<Connector, 'id'>) => `/connectors/${id}/edit`;
  const submit = async (browser: Browser, page: Page, filling: Record<string, string>) =>
    requirePage(await browser.submit(page, filling));
  const change = (id: string, body: object) =>
    requestManagement(system(), 'PATCH', `/connectors/${id}`, body);
  const inAYear = () => new Date(Date.UTC(new Date().getUTCFullYear() + 1, 0, 31)).toISOString();

  it('shows what a change would stop or lower before it is saved, and then saves it', async () => {
    const connector = await createConnector(system(), { name: 'Ops', level: 'full' });
    const { accessToken } = await connect(system(), connector, { level: 'admin' });
    const { browser, page } = await signIn(`/connectors/${connector.id}`);
    expect(page.html).to.include(`href="/console/connectors/${connector.id}/edit"`);
    const form = await open(browser, edit(connector));
    const wanted = { name: 'Operations', level: 'operations', expiresAt: inAYear().slice(0, 10) };
    const effect = await submit(browser, form, wanted);
    expect(effect.status).to.equal(200);
    expect(effect.html)
      .to.include('Nothing has been saved yet.')
      .and.match(/<h1>Change <bdi[^>]*>Ops<\/bdi><\/h1>/)
      .and.include('1 connection stops or gets less access')
      .and.include(`/console/grants/${String(decodeJwt(accessToken).grant_id)}`)
      .and.include('Test client')
      .and.include('Ada Lovelace')
      .and.include('Before: Never<')
      .and.match(new RegExp(`class="crumbs"[^]*/connectors/${connector.id}"[^]*</nav>`));
    expect(await showConnector(system(), connector.id)).to.include({ level: 'full' });
    const saved = await submit(browser, effect, { confirm: 'yes' });
    expect(saved.url.pathname).to.equal(`/console/connectors/${connector.id}`);
    expect(saved.html).to.include('Changes saved.');
    expect(await showConnector(system(), connector.id)).to.include({
      name: 'Operations',
      level: 'operations',
      expiresAt: inAYear(),
    });
    const [item] = (await audited('connector_changed')).slice(-1);
    expect(item?.['by']).to.match(/^account:/);
  });

  it('“Pause…” on the page of a connector leads to the field that pauses it', async () => {
    const connector = await createConnector(system());
    const { browser, page } = await signIn(`/connectors/${connector.id}`);
    expect(page.html).to.include(`href="/console${edit(connector)}#paused">Pause…<`);
    expect((await open(browser, edit(connector))).html).to.include('<select id="paused"');
    await change(connector.id, { paused: true });
    const paused = await open(browser, `/connectors/${connector.id}`);
    expect(paused.html).to.include(`href="/console${edit(connector)}#paused">Resume…<`);
  });

  it('“Cancel” in a form leads to the page that it was opened from', async () => {
    const connector = await createConnector(system());
    const { browser } = await signIn();
    for (const [path, back] of [
      [edit(connector), `/connectors/${connector.id}`],
      [`/connectors/${connector.id}/machine`, `/connectors/${connector.id}`],
      ['/connectors/new', '/connectors'],
      ['/tokens/new', '/tokens'],
    ] as const)
      expect((await open(browser, path)).html).to.include(`href="/console${back}">Cancel<`);
  });

  it('changes every member, and an empty field removes one', async () => {
    const connector = await createConnector(system(), { name: 'All', level: 'full' });
    const { browser, page: form } = await signIn(edit(connector));
    const wanted = {
      suggestedLevel: 'analytics',
      audience: 'domain:example.com\r\nemail:ada@example.com',
      maxUses: '7',
      paused: 'paused',
    };
    const save = async (page: Page, filling: Record<string, string>) => {
      const effect = await submit(browser, page, filling);
      await submit(browser, effect, { confirm: 'yes' });
      return effect.html;
    };
    const first = await save(form, wanted);
    expect(first)
      .to.include('Before: Everyone allowed by the settings file<')
      .and.include('Before: No limit<');
    expect(await showConnector(system(), connector.id)).to.deep.include({
      suggestedLevel: 'analytics',
      audience: [{ emailDomain: 'example.com' }, { email: 'ada@example.com' }],
      maxUses: 7,
      state: 'paused',
    });
    const again = await open(browser, edit(connector));
    const empty = { suggestedLevel: '', audience: '', maxUses: '', paused: '' };
    expect(await save(again, empty)).to.include('After: Everyone allowed by the settings file<');
    const after = await showConnector(system(), connector.id);
    expect(after).to.include({ name: 'All', level: 'full', state: 'active' });
    expect(after).to.not.have.any.keys('suggestedLevel', 'audience', 'maxUses', 'paused');
  });

  it('a wrong value is shown beside its field, and what was entered stays in the form', async () => {
    const connector = await createConnector(system(), { name: 'Wrong', level: 'operations' });
    const { browser, page: form } = await signIn(edit(connector));
    for (const [field, filling] of [
      ['name', { name: 'N'.repeat(81) }],
      ['suggested', { suggestedLevel: 'full' }],
      ['audience', { audience: 'nobody' }],
      ['uses', { maxUses: '10001' }],
      ['expires', { expiresAt: 'tomorrow' }],
      ['expires', { expiresAt: '2020-01-01' }],
    ] as const) {
      const page = await submit(browser, form, { ...filling, name: 'Kept', ...filling });
      expect(page.status, field).to.equal(400);
      expect(page.html, field).to.include('Not saved.').and.include(`id="${field}-fault"`);
      const [[, entered = ''] = []] = Object.entries(filling);
      expect(page.html, field).to.include(entered);
    }
    expect(await showConnector(system(), connector.id)).to.include({ name: 'Wrong' });
  });

  it('CHG-01 of two administrators who change the same record, the second sees what the first changed, at the form and at the last button', async () => {
    const connector = await createConnector(system(), { name: 'Both', level: 'full' });
    const { browser, page: form } = await signIn(edit(connector));
    await change(connector.id, { level: 'admin' });
    const told = await submit(browser, form, { name: 'Mine' });
    expect(told.status).to.equal(412);
    expect(told.html)
      .to.include('somebody changed this while your form was open')
      .and.include('value="Mine"');
    expect(await showConnector(system(), connector.id)).to.include({
      name: 'Both',
      level: 'admin',
    });
    const effect = await submit(browser, told, { name: 'Mine' });
    expect(effect.html).to.include('Nothing has been saved yet.');
    await change(connector.id, { maxUses: 3 });
    const again = await submit(browser, effect, { confirm: 'yes' });
    expect(again.status).to.equal(412);
    const saved = await submit(browser, await submit(browser, again, { name: 'Mine' }), {
      confirm: 'yes',
    });
    expect(saved.html).to.include('Changes saved.');
    expect(await showConnector(system(), connector.id)).to.include({
      name: 'Mine',
      level: 'admin',
      maxUses: 3,
    });
  });

  it('without a change nothing is recorded, and a connector that has ended has no such page', async () => {
    const connector = await createConnector(system(), { name: 'Same', level: 'full' });
    const { browser, page: form } = await signIn(edit(connector));
    const before = (await audited('connector_changed')).length;
    const same = await submit(browser, form, { name: 'Same' });
    expect(same.url.pathname).to.equal(`/console/connectors/${connector.id}`);
    expect(await audited('connector_changed')).to.have.length(before);
    await revokeConnector(system(), connector.id);
    const ended = await open(browser, `/connectors/${connector.id}`);
    expect(ended.html).to.not.include('/edit"');
    const late = await submit(browser, form, { name: 'Late' });
    expect(late.status).to.equal(409);
    expect(await showConnector(system(), connector.id)).to.include({ name: 'Same' });
  });

  it('a minted token is renamed and expires earlier, and not later', async () => {
    const { id, expiresAt } = await mint(system(), { name: 'Old name', expiresIn: '300d' });
    const { browser, page } = await signIn('/tokens');
    expect(page.html).to.include(`href="/console/tokens/${id}/edit"`);
    const form = await open(browser, `/tokens/${id}/edit`);
    const late = await submit(browser, form, { expiresAt: '366d' });
    expect(late.status).to.equal(400);
    expect(late.html).to.include('A token can’t be prolonged.').and.not.include('366 days after');
    const saved = await submit(browser, form, { name: 'New name', expiresAt: '9d' });
    expect(saved.html).to.include('Changes saved.').and.include('New name');
    const token = (await requestManagement(system(), 'GET', `/tokens/${id}`)) as {
      expiresAt: string;
    };
    expect(Date.parse(token.expiresAt)).to.be.lessThan(Date.parse(expiresAt));
    const stale = await submit(browser, form, { name: 'Other' });
    expect(stale.status).to.equal(412);
  });

  it('the limits on calls of a minted token and a machine are in their forms, and an empty field removes one', async () => {
    const { id: token } = await mint(system(), { calls: '5/1m' });
    const { id: connector } = await createConnector(system(), { level: 'full' });
    const { id: machine } = (await requestManagement(system(), 'POST', '/clients', {
      name: 'Limited',
      connector,
      level: 'analytics',
      calls: '5/1m',
    })) as { id: string };
    const { browser } = await signIn('/tokens');
    for (const [form, record] of [
      [`/tokens/${token}/edit`, `/tokens/${token}`],
      [`/clients/${machine}/edit`, `/clients/machine?id=${machine}`],
    ] as const) {
      const shown = () => requestManagement(system(), 'GET', record);
      expect(await shown()).to.include({ calls: '5/1m' });
      const page = await open(browser, form);
      const controls = page.forms.flatMap((each) => each.controls);
      expect(controls.find(({ name }) => name === 'calls')?.value).to.equal('5/1m');
      const saved = await submit(browser, page, { calls: '' });
      expect(saved.html).to.include('Changes saved.');
      expect(await shown()).to.not.have.property('calls');
    }
  });

  it('a machine is renamed and works for longer; an app has no such page', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const { id } = (await requestManagement(system(), 'POST', '/clients', {
      name: 'CI',
      connector: connector.id,
      level: 'analytics',
      expiresIn: '2d',
    })) as { id: string };
    const { browser, page } = await signIn(`/clients/${id}`);
    expect(page.html).to.include(`href="/console/clients/${id}/edit"`);
    const form = await open(browser, `/clients/${id}/edit`);
    const saved = await submit(browser, form, { name: 'Nightly', expiresAt: '90d' });
    expect(saved.url.pathname).to.equal(`/console/clients/${id}`);
    expect(saved.html).to.include('Changes saved.').and.include('Nightly');
    const { client } = await connect(system(), connector);
    const app = await open(browser, `/clients/${client.id}`);
    expect(app.html).to.not.include('/edit"');
    expect((await open(browser, `/clients/${client.id}/edit`)).status).to.equal(404);
  });
});
