import { expect } from 'chai';
import { decodeJwt } from 'jose';
import type { Account } from '../../src/people/account.ts';
import { KEEP } from '../../src/store/store.ts';
import type { Page } from '../support/browser.ts';
import { connectWithRefreshToken, present, rotate } from '../connections/token-family.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect } from '../support/connection.ts';
import { formTokenIn, useConsole } from '../support/console.ts';
import { unescapeHtml } from '../support/html-forms.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { openSystemStore } from '../support/system-store.ts';

describe('the pages of one person, app and connection in the console', () => {
  const ADMINISTRATORS = [{ subject: 'ada' }, { subject: 'alan', role: 'viewer' }];
  const { system, signIn, open, send } = useConsole({
    file: { management: { administrators: ADMINISTRATORS } },
  });

  afterEach(restoreClock);

  async function graceConnected(connector?: { link: string }) {
    const used = connector ?? (await createConnector(system(), { name: 'Reports' }));
    const { accessToken, client } = await connect(system(), used, { person: 'grace' });
    const { sub, client_id: app } = decodeJwt(accessToken);
    return {
      person: `/accounts/${String(sub)}`,
      app: `/clients/${encodeURIComponent(String(app))}`,
      client,
      isConnected: () => isAccepted(used.link, accessToken),
    };
  }

  /** Sends the first form of the page with this action, as a browser does. */
  function fieldsOf(page: Page, path: string): Record<string, string> {
    const form = page.forms.find(({ action }) => action.pathname === `/console${path}`);
    if (!form) throw new Error(`no form for ${path}`);
    return Object.fromEntries(form.controls.map(({ name, value }) => [name, value]));
  }

  it('an app is disconnected on the page of its person, which is shown again', async () => {
    const { person, isConnected } = await graceConnected();
    const { browser, page } = await signIn(person);
    expect(page.html).to.include('grace@example.com').and.include('This person can sign in');
    const after = await send(browser, page, '/grants/end', fieldsOf(page, '/grants/end'));
    expect(after.url.pathname).to.equal(`/console${person}`);
    expect(after.html)
      .to.include('An administrator ended the connection.')
      .and.include('has to connect the app again')
      .and.match(/Ada Lovelace<\/bdi><\/a> ended <a [^>]*><bdi class="name">Grace Hopper</)
      .and.match(
        /<bdi class="name">grace@example.com<\/bdi>’s <bdi class="claim">[^<]+<\/bdi> was disconnected from <bdi class="fact">Reports</,
      );
    expect(await isConnected()).to.equal(false);
  });

  it('the page of a connection says why it ended, as `gatehouse grant why` does', async () => {
    const connector = await createConnector(system(), { name: 'Revoked' });
    const { person } = await graceConnected(connector);
    await requestManagement(system(), 'DELETE', `/connectors/${connector.id}`);
    const { browser, page } = await signIn(person);
    const [, ended = ''] = page.html.split('id="ended"');
    expect(ended)
      .to.include('The connector was revoked.')
      .and.include('send them another connector’s link');
    const [, path = ''] =
      /connector was revoked\.[^]*?href="\/console(\/grants\/[^"]+)"/.exec(ended) ?? [];
    expect((await open(browser, path)).html).to.include('The connector was revoked.');
  });

  it('disconnecting a paused connection says that its problem must be resolved first', async () => {
    const audience = [{ email: 'grace@example.com' }];
    const connector = await createConnector(system(), { name: 'For Grace', audience });
    const { person } = await graceConnected(connector);
    const { store } = await openSystemStore(system());
    const id = person.slice('/accounts/'.length);
    const changeEmail = (email: string) =>
      store.update<Account>(`account:${id}`, (current) =>
        current ? { value: { ...current, email }, ttl: 3600 } : KEEP,
      );
    try {
      await changeEmail('grace@elsewhere.example');
      const { browser, page } = await signIn(person);
      const paused = 'once the problem above is resolved';
      expect(page.html).to.include('no longer one of them').and.include(paused);
      await changeEmail('grace@example.com');
      expect((await open(browser, person)).html)
        .to.include('The person can connect the app again.')
        .and.not.include(paused);
    } finally {
      await store.close();
    }
  });

  it('the page of a person shows the groups that the identity provider sent, or says that it sent none', async () => {
    const { person } = await graceConnected();
    const { store } = await openSystemStore(system());
    const key = `account:${person.slice('/accounts/'.length)}`;
    const account = await store.get<Account>(key);
    const setClaims = (claims: Partial<Account>) =>
      store.update<Account>(key, () =>
        account ? { value: { ...account.value, ...claims }, ttl: 3600 } : KEEP,
      );
    try {
      await setClaims({ groups: ['analysts', '<b>staff'] });
      const { browser, page } = await signIn(person);
      expect(page.html).to.include('<bdi>analysts</bdi>').and.include('<bdi>&lt;b&gt;staff</bdi>');
      const groups = Array.from({ length: 51 }, (_, n) => `group ${n + 1}`);
      await setClaims({ groups });
      expect((await open(browser, person)).html)
        .to.include('<bdi>group 50</bdi>')
        .and.include('There are more groups than fit here.')
        .and.not.include('group 51');
      await setClaims({ groups: [] });
      expect((await open(browser, person)).html).to.include('sent no groups');
      await setClaims({ groups: [], groupsOmitted: true });
      expect((await open(browser, person)).html).to.include('left out this person’s groups');
    } finally {
      await setClaims({});
      await store.close();
    }
  });

  it('the page of an app lists its people and redirect destinations, and blocks the app', async () => {
    const { person, app, isConnected } = await graceConnected();
    const { browser, page } = await signIn(app);
    expect(page.html)
      .to.include('Its name isn’t verified.')
      .and.include(`href="/console${person}"`)
      .and.include('Redirect address');
    const asked = await send(browser, page, '/rules/block', fieldsOf(page, '/rules/block'));
    expect(await isConnected()).to.equal(true);
    const blocked = await send(browser, asked, '/rules/block', fieldsOf(asked, '/rules/block'));
    expect(blocked.url.pathname).to.equal(`/console${app}`);
    expect(blocked.html).to.include('A rule blocks this app.');
    expect(await isConnected()).to.equal(false);
    const rules = await open(browser, '/rules');
    await send(browser, rules, '/rules/remove', fieldsOf(rules, '/rules/remove'));
  });

  it('the pages of a connector and the lists link to the pages of people, apps and connections', async () => {
    const connector = await createConnector(system(), { name: 'Linked' });
    const { person, app } = await graceConnected(connector);
    const { page } = await signIn(`/connectors/${connector.id}`);
    expect(page.html)
      .to.include(`href="/console${person}"`)
      .and.include(`href="/console${app}"`)
      .and.match(/href="\/console\/grants\/[\w-]+"/);
  });

  it('the history on the page of a person links to the audit log of that person only', async () => {
    const { person } = await graceConnected();
    const { browser, page } = await signIn(person);
    const [, query = ''] = /href="\/console\/audit(\?account=[^"]+)"/.exec(page.html) ?? [];
    const { html } = await open(browser, `/audit${query}`);
    expect(html).to.include('grace@example.com').and.not.include('>connector_created<');
  });

  it('the message of an action names only a connection that has ended', async () => {
    const { person } = await graceConnected();
    const { browser, page } = await signIn(person);
    const { id = '' } = fieldsOf(page, '/grants/end');
    for (const about of [id, 'unknown'])
      expect((await open(browser, `${person}?done=ended&about=${about}`)).html, about)
        .to.include('App disconnected.')
        .and.not.include('was disconnected');
  });

  it('a name with markup is shown as text', async () => {
    const connector = await createConnector(system(), { name: '<img src=x onerror=alert(1)>' });
    const { person, app } = await graceConnected(connector);
    const { browser } = await signIn();
    for (const path of [person, app]) {
      const { html } = await open(browser, path);
      expect(html, path).to.include('&lt;img src=x').and.not.include('<img src=x');
    }
  });

  it('a viewer sees the pages without any form that changes something', async () => {
    const { person, app } = await graceConnected();
    const { browser } = await signIn('/connectors', 'alan');
    const { id } = await createConnector(system());
    expect((await open(browser, `/connectors/${id}`)).html).to.not.include('new?from=');
    for (const path of [person, app]) {
      const { status, forms } = await open(browser, path);
      expect(status, path).to.equal(200);
      const changing = forms.filter(({ action }) => action.pathname !== '/console/search');
      expect(changing.map(({ action }) => action.pathname)).to.deep.equal(['/console/sign-out']);
    }
  });

  it('an unknown or malformed id is answered with a page and 404', async () => {
    const { browser } = await signIn();
    for (const path of [
      '/accounts/AAAAAAAAAAAAAAAAAAAAAAAAAAA',
      '/clients/https%3A%2F%2Fnobody.example%2Fapp.json',
      '/grants/AAAAAAAAAAAAAAAAAAAAAA',
      '/accounts/%E0%A4%A',
    ]) {
      const { status, headers } = await open(browser, path);
      expect([path, status]).to.deep.equal([path, 404]);
      expect(headers.get('content-type')).to.include('text/html');
    }
  });

  it('an action never redirects to another site or outside the pages of records', async () => {
    const { person } = await graceConnected();
    const { browser, page } = await signIn(person);
    const token = formTokenIn(page);
    const id = decodeURIComponent(person.slice('/accounts/'.length));
    for (const returnTo of ['https://evil.example/', '//evil.example', '/console/accounts/a/b']) {
      const { url } = await send(browser, page, '/accounts/enable', { token, id, returnTo });
      expect(url.pathname, returnTo).to.equal('/console/accounts');
    }
  });

  it('only the page of the signed-in administrator says that it is their own account', async () => {
    const { person } = await graceConnected();
    const { browser, page } = await signIn(person);
    expect(page.html).to.not.include('your own account');
    const { html } = await open(browser, '/accounts');
    const [, own = ''] =
      /href="\/console(\/accounts\/[^"]+)"><bdi class="claim">Ada Lovelace</.exec(html) ?? [];
    expect((await open(browser, own)).html).to.include('This is your own account.');
  });

  it('a deleted person has no page, and their ended connections no name', async () => {
    const { person, app } = await graceConnected();
    const { browser, page } = await signIn(person);
    const list = await send(browser, page, '/accounts/forget', fieldsOf(page, '/accounts/forget'));
    expect(list.url.pathname).to.equal('/console/accounts');
    expect((await open(browser, person)).status).to.equal(404);
    const { html } = await open(browser, app);
    expect(unescapeHtml(html))
      .to.include('Deleted person')
      .and.not.include('grace@example.com')
      .and.not.include('connects the app again');
  });

  it('a rule with both a host and a name, or neither, blocks nothing and is shown again', async () => {
    const { browser, page } = await signIn('/rules');
    const token = formTokenIn(page);
    for (const { host, name } of [
      { host: 'evil.example', name: 'Evil' },
      { host: '', name: '' },
      { host: 'localhost', name: '' },
    ]) {
      const again = await send(browser, page, '/rules/block', { token, host, name });
      expect(again.status).to.equal(400);
      expect(again.html)
        .to.include('id="block-fault"')
        .and.include(`name="host" type="text" value="${host}"`)
        .and.include(`name="name" type="text" value="${name}"`)
        .and.include('No rules yet.');
    }
  });

  it('the page of a person shows what they get through 50 connectors, and counts the others', async () => {
    const { person } = await graceConnected();
    const { items } = (await requestManagement(system(), 'GET', '/connectors')) as {
      items: object[];
    };
    const more = Array.from({ length: 53 - items.length }, () =>
      createConnector(system(), { level: 'analytics' }),
    );
    await Promise.all(more);
    const { html } = (await signIn(person)).page;
    expect(html).to.include('3 other connectors aren’t listed here');
    expect(html.match(/href="\/console\/accounts\/[^"]*\/tools\?connector=/g)).to.have.length(50);
  });
});

describe('the page of an app after a replay says whether the audit log can have calls of somebody else', () => {
  afterEach(restoreClock);

  for (const [calls, found] of [
    ['all', 'Look in the audit log for calls that nobody can explain'],
    ['recorded', 'The settings record no calls with this access'],
  ] as const)
    describe(`with audit.calls: ${calls}`, () => {
      const { system, signIn } = useConsole({
        file: { management: { administrators: [{ subject: 'ada' }] }, audit: { calls } },
      });

      for (const [level, text] of [
        ['operations', found],
        ['full', 'Look in the audit log for calls that nobody can explain'],
      ] as const)
        it(`at the level ${level}`, async () => {
          const connector = await createConnector(system(), { name: 'Replayed', level: 'full' });
          const family = await connectWithRefreshToken(system(), { level }, connector);
          const { refreshToken } = await rotate(family, family.refreshToken);
          await rotate(family, refreshToken);
          advanceClock(120);
          await present(family, family.refreshToken);
          const id = encodeURIComponent(String(decodeJwt(family.accessToken).client_id));
          const { page } = await signIn(`/clients/${id}`);
          expect(page.html).to.include('Other connections have their own keys.').and.include(text);
        });
    });
});
