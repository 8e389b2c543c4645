import { expect } from 'chai';
import type { Browser, Page } from '../support/browser.ts';
import { connect, obtainCode } from '../support/connection.ts';
import { formTokenIn, useConsole } from '../support/console.ts';
import { unescapeHtml } from '../support/html-forms.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { type Client, discover, register } from '../support/oauth.ts';
import { openSystemStore } from '../support/system-store.ts';

describe('the page of the console that asks before a block', () => {
  const { system, signIn, open, send, audited } = useConsole({
    file: {
      clients: {
        apps: [],
        allowedRedirects: [1, 2].map((nth) => `https://app${nth}.partner.example/callback`),
      },
    },
  });

  /** Registers an app with this name. */
  async function registered(
    link: string,
    name: string,
    redirectUri = 'http://127.0.0.1:7070/callback',
  ): Promise<Client> {
    const { server } = await discover(link);
    const metadata = { client_name: name, redirect_uris: [redirectUri] };
    const { body } = await register(server, { ...metadata, token_endpoint_auth_method: 'none' });
    return { id: String(body.client_id), method: 'none', redirectUri };
  }

  /** Sends the form of App rules, which has these fields. */
  async function ask(browser: Browser, page: Page, fields: { host?: string; name?: string }) {
    const sent = { token: formTokenIn(page), host: '', name: '', ...fields };
    return send(browser, page, '/rules/block', sent);
  }

  /** Presses the button of the page. */
  async function confirm(browser: Browser, page: Page): Promise<Page> {
    const [form] = page.forms.filter(({ action }) => action.pathname === '/console/rules/block');
    if (!form) throw new Error('the page does not ask');
    const fields = form.controls.map(({ name, value }) => [name, value] as const);
    return send(browser, page, '/rules/block', Object.fromEntries(fields));
  }

  const rules = async () =>
    ((await requestManagement(system(), 'GET', '/client-rules')) as { items: object[] }).items;

  it('the page counts what a name would block and changes nothing, and its button blocks', async () => {
    const connector = await createConnector(system(), { name: 'Numbers' });
    const twice = await registered(connector.link, 'Ünwanted App');
    const once = await registered(connector.link, 'unwanted-app');
    const other = await registered(connector.link, 'Unwanted App 2');
    await registered(connector.link, 'Unwanted app');
    const ada = await connect(system(), connector, { as: { client: twice } });
    const grace = await connect(system(), connector, { as: { client: twice }, person: 'grace' });
    const second = await connect(system(), connector, { as: { client: once } });
    const kept = await connect(system(), connector, { as: { client: other } });
    await requestManagement(system(), 'POST', '/clients', {
      name: 'UNWANTED APP',
      connector: connector.id,
      level: 'analytics',
    });
    const all = [ada, grace, second];
    const accepted = () =>
      Promise.all(all.map(({ accessToken }) => isAccepted(connector.link, accessToken)));

    const { browser, page } = await signIn('/rules');
    const asked = await ask(browser, page, { name: 'unwanted app' });
    expect(asked.status).to.equal(200);
    expect(asked.html)
      .to.include('Block all apps with this name: <bdi class="claim">unwanted app</bdi>')
      .and.include('Nothing has been blocked yet.')
      .and.include('immediately end 4 connections of 3 apps and machines.')
      .and.match(/q=%C3%9Cnwanted\+App"><bdi class="claim">Ünwanted App<[^]*?>2 connections</)
      .and.match(/<bdi class="claim">unwanted-app<[^]*?>1 connection</)
      .and.match(/<bdi class="claim">UNWANTED APP<[^]*?>1 connection</)
      .and.include('href="/console/rules">Cancel<')
      .and.not.include('Unwanted App 2')
      .and.not.include('more name');
    expect(await rules()).to.deep.equal([]);
    expect(await accepted()).to.deep.equal([true, true, true]);

    const blocked = await confirm(browser, asked);
    expect(blocked.url.pathname).to.equal('/console/rules');
    expect(blocked.html).to.include('Rule added.').and.include('unwanted app');
    expect(await accepted()).to.deep.equal([false, false, false]);
    expect(await isAccepted(connector.link, kept.accessToken)).to.equal(true);
    expect(await audited('client_blocked')).to.have.length(1);
    expect((await audited('grant_ended')).map(({ reason }) => reason)).to.deep.equal(
      Array.from({ length: 4 }, () => 'client_blocked'),
    );

    const again = await ask(browser, blocked, { name: 'unwanted app' });
    expect(again.html).to.include('No matching app or machine is connected now.');
  });

  it('the page counts the apps of a host and its subdomains, with approvals that have no tokens yet', async () => {
    const connector = await createConnector(system());
    for (const nth of [1, 2]) {
      const uri = `https://app${nth}.partner.example/callback`;
      const client = await registered(connector.link, `Hosted ${nth}`, uri);
      await (nth === 1 ? connect : obtainCode)(system(), connector, { as: { client } });
    }
    const { browser, page } = await signIn('/rules');
    const one = await ask(browser, page, { host: 'APP1.partner.example' });
    expect(one.html)
      .to.include('Block all apps from this host: <bdi class="code">app1.partner.example</bdi>')
      .and.include('immediately end 1 connection of 1 app or machine.')
      .and.include('Hosted 1')
      .and.not.include('Hosted 2');
    const both = await ask(browser, page, { host: 'partner.example' });
    expect(both.html).to.include('immediately end 2 connections of 2 apps and machines.');
  });

  it('the page shows ten names, those with the most connections first, and how many it leaves out', async () => {
    const connector = await createConnector(system());
    const connectAs = async (name: string, uri: string) => {
      const client = await registered(connector.link, name, uri);
      await connect(system(), connector, { as: { client } });
      return client;
    };
    const host = 'https://app2.partner.example/callback';
    const before = await signIn('/rules');
    const known = await ask(before.browser, before.page, { host: 'app2.partner.example' });
    const earlier = [...known.html.matchAll(/<bdi class="claim">/g)].length;
    for (let nth = 1; nth <= 12 - earlier; nth += 1) await connectAs(`Named ${nth}`, host);
    for (const _ of [1, 2]) await connectAs('Of many', host);
    const asked = await ask(before.browser, before.page, { host: 'app2.partner.example' });
    const names = [...asked.html.matchAll(/<bdi class="claim">([^<]+)/g)].map(([, name]) => name);
    expect(names).to.have.length(10);
    expect(names[0]).to.equal('Of many');
    expect(asked.html).to.include('and 3 more names');
  });

  it('a block that matches nothing says so, and keeps future apps out', async () => {
    const { browser, page } = await signIn('/rules');
    const asked = await ask(browser, page, { name: '<b>Nobody</b>' });
    expect(asked.html)
      .to.include('No matching app or machine is connected now.')
      .and.include('&lt;b&gt;Nobody')
      .and.not.include('What will be disconnected');
    await confirm(browser, asked);
    const connector = await createConnector(system());
    const { server } = await discover(connector.link);
    const refused = await register(server, {
      client_name: '<b>nobody</b>',
      redirect_uris: ['http://127.0.0.1:7070/callback'],
    });
    expect(refused.status).to.equal(403);
  });

  it('from the page of an app, the page links back to it, and the app’s page follows the block', async () => {
    const connector = await createConnector(system());
    const client = await registered(connector.link, 'Asked from its page');
    await connect(system(), connector, { as: { client } });
    const { browser, page } = await signIn(`/clients/${client.id}`);
    expect(page.html).to.include('The next page shows what would be disconnected.');
    const asked = await confirm(browser, page);
    expect(unescapeHtml(asked.html))
      .to.include(`href="/console/clients/${client.id}">Cancel<`)
      .and.include('Block all apps and machines with this name');
    expect((await open(browser, `/clients/${client.id}`)).html).to.include('>Allowed<');
    const blocked = await confirm(browser, asked);
    expect(blocked.url.pathname).to.equal(`/console/clients/${client.id}`);
    expect(blocked.html).to.include('App blocked.').and.not.include('/console/rules/block');
  });

  it('if more apps are connected than the page counts, it says that the block may end more', async () => {
    const { store } = await openSystemStore(system());
    try {
      const quarter = Math.floor(Date.now() / 1000 / (90 * 86_400));
      const ids = Array.from(
        { length: 5001 },
        (_, nth) => `client-${String(nth).padStart(16, '0')}`,
      );
      await Promise.all(
        ids.map((id) => store.addMember(`clients-connected:${quarter}`, id, 86_400)),
      );
    } finally {
      await store.close();
    }
    const { browser, page } = await signIn('/rules');
    expect((await ask(browser, page, { name: 'Anything' })).html)
      .to.include('Not all connected apps could be counted')
      .and.not.include('No matching app');
  });

  it('a block is confirmed only with the token of the session', async () => {
    const { browser, page } = await signIn('/rules');
    const fields = { token: 'x', host: 'evil.example', name: '', confirm: 'yes' };
    expect((await send(browser, page, '/rules/block', fields)).status).to.equal(403);
    expect(JSON.stringify(await rules())).to.not.include('evil.example');
  });
});
