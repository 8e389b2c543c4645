import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { addGrant } from '../../src/connections/grants.ts';
import type { Page } from '../support/browser.ts';
import { connect } from '../support/connection.ts';
import { useConsole } from '../support/console.ts';
import { createConnector, listGrants, requestManagement } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { requirePage } from '../support/browser.ts';
import { listGrant } from '../support/list-grant.ts';
import { openSystemStore } from '../support/system-store.ts';
import { LIFETIMES } from './management-host.ts';

describe('Actions on several records of a list in the console', () => {
  const { system, signIn, open, send, audited } = useConsole({
    file: {
      management: { administrators: [{ subject: 'ada' }, { subject: 'alan', role: 'viewer' }] },
    },
  });
  const fieldsOf = (page: Page, path: string) => {
    const form = page.forms.find(({ action }) => action.pathname === `/console${path}`);
    if (!form) throw new Error(`no form for ${path}`);
    const hidden = form.controls.filter(({ name }) => name !== '' && name !== 'which');
    return Object.fromEntries(hidden.map(({ name, value }) => [name, value]));
  };

  async function connections(name: string) {
    const connector = await createConnector(system(), { name });
    const made = [
      await connect(system(), connector, { person: 'grace' }),
      await connect(system(), connector, { person: 'grace' }),
      await connect(system(), connector, { person: 'ada' }),
    ];
    const { items } = await listGrants(system(), { connector: connector.id });
    return { connector, items, made };
  }

  it('CSL-15 ticked connections end after a page that names them, and no others', async () => {
    const { connector, items, made } = await connections('Ticked');
    const { browser } = await signIn();
    const list = await open(browser, `/grants?connector=${connector.id}`);
    const [first, second] = items;
    const ticked = { which: 'ticked', 'id.0': String(first?.id), 'id.1': String(second?.id) };
    const fields = { ...fieldsOf(list, '/grants/several'), ...ticked };
    const asked = await send(browser, list, '/grants/several', fields);
    expect(asked.html)
      .to.include('Ends 2 connections of')
      .and.match(/Connector <bdi>Ticked</)
      .and.include('>Disconnect 2 connections<');
    const isConnected = () =>
      Promise.all(made.map(({ link, accessToken }) => isAccepted(link, accessToken)));
    expect(await isConnected()).to.deep.equal([true, true, true]);
    const done = requirePage(await browser.submit(asked, { confirm: 'yes' }));
    expect(done.html).to.include('Connections disconnected.');
    const { items: after } = await listGrants(system(), { connector: connector.id });
    const ended = after.filter(({ state }) => state === 'ended').map(({ id }) => id);
    expect(ended).to.have.members([first?.id, second?.id]);
  });

  it('the buttons for all that was found appear only with a search or a filter', async () => {
    await connections('Not narrowed');
    await requestManagement(system(), 'POST', '/tokens', {
      name: 'Wide-token',
      level: 'analytics',
    });
    const { browser } = await signIn();
    for (const section of ['grants', 'clients', 'tokens']) {
      const all = await open(browser, `/${section}`);
      expect(all.html, section).to.include('value="ticked"').and.not.include('value="all"');
    }
    expect((await open(browser, '/tokens?q=wide-token')).html).to.include('value="all"');
    expect((await open(browser, '/grants?q=not+narrowed')).html).to.match(
      /<button class="ask"[^>]* value="all">Disconnect all \d+ found…/,
    );
  });

  it('CSL-15 all connections that the filters find end, also those of the administrator, whose session goes on', async () => {
    const { connector } = await connections('Filtered');
    const other = await connections('Not filtered');
    const { browser } = await signIn();
    const list = await open(browser, `/grants?connector=${connector.id}&state=active`);
    expect(list.html).to.include('Disconnect all 3 found…');
    // Those that have ended are found too.
    await requestManagement(system(), 'DELETE', `/grants/${String(other.items[0]?.id)}`);
    const withEnded = await open(browser, `/grants?connector=${other.connector.id}`);
    expect(withEnded.html)
      .to.match(/>\s*3 results/)
      .and.include('Disconnect all that haven’t ended (2)…');
    const fields = { ...fieldsOf(list, '/grants/several'), which: 'all' };
    const asked = await send(browser, list, '/grants/several', fields);
    expect(asked.html).to.include('Ends 3 connections of 2 people.');
    const done = requirePage(await browser.submit(asked, { confirm: 'yes' }));
    expect(done.status).to.equal(200);
    const state = async (id: string) =>
      (await listGrants(system(), { connector: id })).items.map((grant) => grant.state);
    expect(await state(connector.id)).to.deep.equal(['ended', 'ended', 'ended']);
    expect(await state(other.connector.id)).to.have.members(['active', 'active', 'ended']);
    expect((await open(browser, '/overview')).status).to.equal(200);
    const last = (await audited('grant_ended')).at(-1);
    expect(last?.['by']).to.match(/^account:[\w-]{27}$/);
  });

  it('CSL-15 all that was found is named before it ends, however many others are between', async () => {
    const connector = await createConnector(system(), { level: 'analytics' });
    const { accessToken } = await connect(system(), connector, { person: 'grace' });
    const account = String(decodeJwt(accessToken).sub);
    const now = Date.now() / 1000;
    const { store } = await openSystemStore(system());
    const approve = async (n: number) => {
      const grantId = `grant-among-many-${String(n).padStart(6, '0')}`;
      const owners = { account, client: 'an-app-among-many', connector: connector.id };
      await listGrant(store, grantId, owners, { lifetime: 3600, now });
      const client = { name: n % 700 === 0 ? 'Needle' : 'Hay', redirectHost: 'app.example.com' };
      const grant = { accountId: account, clientId: owners.client, exp: now + 3600 };
      await addGrant(store, grantId, { connector: connector.id, client, grant }, LIFETIMES, now);
    };
    await Promise.all(Array.from({ length: 701 }, (_, n) => approve(n)));
    await store.close();
    const { browser } = await signIn();
    const list = await open(browser, `/grants?connector=${connector.id}&q=needle`);
    expect(list.html).to.include('Disconnect all 2 found…');
    const fields = { ...fieldsOf(list, '/grants/several'), which: 'all' };
    const asked = await send(browser, list, '/grants/several', fields);
    expect(asked.html)
      .to.include('Ends 2 connections of')
      .and.include('>Disconnect 2 connections<');
  });

  it('apps and tokens are revoked together, and the page before counts the connections and people', async () => {
    const { connector } = await connections('Apps');
    const { browser } = await signIn();
    const apps = await open(browser, '/clients?state=allowed');
    const asked = await send(browser, apps, '/clients/several', {
      ...fieldsOf(apps, '/clients/several'),
      which: 'all',
    });
    expect(asked.html).to.match(/Ends \d+ connections of 2 people\./);
    expect(asked.html).to.match(/>Stop allowing \d+ apps</);
    await browser.submit(asked, { confirm: 'yes' });
    const { items } = await listGrants(system(), { connector: connector.id });
    expect(items.map(({ reason }) => reason)).to.deep.equal(Array(3).fill('client_revoked'));

    for (const name of ['Nightly-one', 'Nightly-two'])
      await requestManagement(system(), 'POST', '/tokens', { name, level: 'analytics' });
    const tokens = await open(browser, '/tokens?q=nightly');
    const revoked = requirePage(
      await browser.submit(
        await send(browser, tokens, '/tokens/several', {
          ...fieldsOf(tokens, '/tokens/several'),
          which: 'all',
        }),
        { confirm: 'yes' },
      ),
    );
    expect(revoked.html).to.include('Tokens revoked.').and.not.include('>Nightly-one<');
  });

  it('CSL-15 the page before, its way back and the page after keep the search and the order of the list', async () => {
    const { connector } = await connections('Found again');
    await connections('Elsewhere');
    const { browser } = await signIn();
    const search = `connector=${connector.id}&q=found&sort=person`;
    const list = await open(browser, `/grants?${search}`);
    const nothing = await send(browser, list, '/grants/several', {
      ...fieldsOf(list, '/grants/several'),
      which: 'ticked',
    });
    expect(nothing.html)
      .to.match(/3 results/)
      .and.not.include('Elsewhere');
    const asked = await send(browser, nothing, '/grants/several', {
      ...fieldsOf(nothing, '/grants/several'),
      which: 'all',
    });
    expect(asked.html).to.include(`href="/console/grants?${search.replaceAll('&', '&amp;')}"`);
    const done = requirePage(await browser.submit(asked, { confirm: 'yes' }));
    expect(`${done.url.pathname}${done.url.search}`).to.equal(
      `/console/grants?${search}&done=several-grants`,
    );
    expect(done.html)
      .to.match(/3 results/)
      .and.not.include('Elsewhere');
  });

  it('an action on one record of a searched list returns to the search', async () => {
    const { connector } = await connections('One of several');
    const { browser } = await signIn();
    const list = await open(browser, `/grants?connector=${connector.id}&state=active`);
    const done = await send(browser, list, '/grants/end', fieldsOf(list, '/grants/end'));
    expect(done.url.search).to.match(
      new RegExp(`^\\?connector=${connector.id}&state=active&done=ended&about=`),
    );
    expect(done.html).to.include('2 results');
  });

  it('CSL-15 without a ticked record, or all without a search, nothing changes, and a viewer has no such form', async () => {
    await connections('Nothing ticked');
    const { browser } = await signIn();
    const list = await open(browser, '/grants');
    const fields = fieldsOf(list, '/grants/several');
    // A filter that the settings have no more does not narrow the list.
    for (const chosen of [
      { which: 'ticked', place: '' },
      { which: 'all', place: '' },
      { which: 'all', place: 'level=gone' },
    ]) {
      const refused = await send(browser, list, '/grants/several', { ...fields, ...chosen });
      expect(refused.status).to.equal(400);
      expect(refused.html).to.include('Nothing was changed. Tick at least one entry first.');
    }
    const viewer = await signIn('/grants', 'alan');
    expect(viewer.page.html).to.not.include('/grants/several').and.not.include('checkbox');
    const token = String(new Map(Object.entries(fields)).get('token'));
    const sent = await send(browser, list, '/grants/several', { token: `${token}x`, which: 'all' });
    expect(sent.status).to.equal(403);
  });
});
