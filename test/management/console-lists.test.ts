import { createSecretKey, randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import {
  createConnector,
  listGrants,
  requestManagement,
  readAudit,
} from '../support/management-api.ts';
import { type Browser, openBrowser, type Page, requirePage } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import { connect, registerClient } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { discover } from '../support/oauth.ts';
import { openSystemStore } from '../support/system-store.ts';
import { listGrant } from '../support/list-grant.ts';
import { addGrant } from '../../src/connections/grants.ts';
import { saveAccount } from '../../src/people/accounts.ts';
import { LIFETIMES } from './management-host.ts';
import { useSystem } from '../support/system.ts';

describe('the lists of the console', () => {
  const system = useSystem();
  let browser: Browser;

  beforeEach(async () => {
    browser = openBrowser([...system().origins, system().management]);
    const page = requirePage(await browser.visit(at('/connectors')));
    await browser.submit(page, { person: 'ada' });
  });

  const at = (path: string) => `${system().management}/console${path}`;

  async function open(path: string): Promise<Page> {
    const page = requirePage(await browser.visit(at(path)));
    expect(page.status, path).to.equal(200);
    return page;
  }

  /** Submits the form with the action `path` for the record `id`. */
  async function press(page: Page, path: string, id: string): Promise<Page> {
    const form = page.forms.find(
      ({ action, controls }) =>
        action.href === at(path) &&
        controls.some(({ name, value }) => name === 'id' && value === id),
    );
    if (!form) throw new Error(`no form for ${path} of ${id}`);
    const fields = form.controls.map(({ name, value }) => [name, value] as [string, string]);
    return requirePage(await browser.post(page, form.action, new URLSearchParams(fields)));
  }

  async function lastAudited(event: string) {
    const items = (await readAudit(system())).filter((item) => item.event === event);
    return items.at(-1);
  }

  it('CSL-08 a token is minted, shown once, used, and revoked', async () => {
    const before = await open('/tokens/new');
    const minted = requirePage(
      await browser.submit(before, { name: 'Nightly', level: 'analytics', days: '7' }),
    );
    const token = /id="token"[^>]*>([^<]+)</.exec(minted.html)?.[1] ?? '';
    expect(minted.html)
      .to.include(`${system().resource}/mcp`)
      .and.include('Copy it now')
      .and.match(/Token created:\s*<bdi class="claim">Nightly</);
    const [, example = ''] = /<pre [^>]*><bdi[^>]*>([^<]*)</.exec(minted.html) ?? [];
    expect(JSON.parse(example.replaceAll('&#34;', '"'))).to.have.nested.property(
      'mcpServers.gatehouse.headers.Authorization',
      `Bearer ${token}`,
    );
    expect(minted.headers.get('cache-control')).to.equal('no-store');
    expect(await isAccepted(`${system().resource}/mcp`, token)).to.equal(true);
    const again = requirePage(await browser.submit(before, { name: 'Nightly', level: 'full' }));
    expect(again.html).not.to.include('id="token"');
    const list = await open('/tokens');
    expect(list.html).to.include('Nightly').and.not.include(token);
    const { items } = (await requestManagement(system(), 'GET', '/tokens')) as {
      items: { id: string }[];
    };
    expect(items).to.have.length(1);
    const revoked = await press(list, '/tokens/revoke', String(items[0]?.id));
    expect(revoked.html).to.include('Token revoked.').and.not.include('Nightly');
    expect(await isAccepted(`${system().resource}/mcp`, token)).to.equal(false);
    for (const event of ['token_minted', 'token_revoked'])
      expect((await lastAudited(event))?.['by']).to.match(/^account:[\w-]{27}$/);
  });

  it('a token for more than a year is refused and the form keeps its values', async () => {
    const page = await open('/tokens/new');
    const answer = requirePage(
      await browser.submit(page, { name: 'Too long', level: 'full', days: '367' }),
    );
    expect(answer.status).to.equal(400);
    expect(answer.html).to.include('at most 366 for a token').and.include('value="Too long"');
  });

  it('CSL-10 a connection is found by its state and ended, and the list shows the reason', async () => {
    const connector = await createConnector(system(), { name: 'Shown in the list' });
    const { accessToken } = await connect(system(), connector, { person: 'grace' });
    const { items } = await listGrants(system(), { connector: connector.id });
    const id = String(items[0]?.id);
    const active = await open('/grants?state=active');
    expect(active.html).to.include('Shown in the list').and.include('grace@example.com');
    const pressed = await press(active, '/grants/end', id);
    expect(pressed.html).to.include('was disconnected from');
    const ended = await open('/grants?state=ended');
    expect(ended.html).to.include('An administrator ended the connection.');
    expect(await isAccepted(connector.link, accessToken)).to.equal(false);
    expect((await open('/grants?state=active')).html).not.to.include(id);
    expect(await lastAudited('grant_ended')).to.include({ grantId: id });
    expect((await lastAudited('grant_ended'))?.['by']).to.match(/^account:[\w-]{27}$/);
  });

  it('CSL-10 an app is revoked and allowed again', async () => {
    await connect(system(), await createConnector(system()), { person: 'grace' });
    const { items } = (await requestManagement(system(), 'GET', '/clients')) as {
      items: { id: string }[];
    };
    const id = String(items[0]?.id);
    const revoked = await press(await open('/clients'), '/clients/revoke', id);
    expect(revoked.html).to.include('Revoked');
    expect(await lastAudited('client_revoked')).to.include({ clientId: id });
    const allowed = await press(revoked, '/clients/allow', id);
    expect(allowed.html).to.include('People can connect this app.');
    expect((await lastAudited('client_allowed'))?.['by']).to.match(/^account:[\w-]{27}$/);
  });

  it('CSL-10 a person is disabled and enabled', async () => {
    await connect(system(), await createConnector(system()), { person: 'grace' });
    type Accounts = { items: { id: string; name: string }[] };
    const { items } = (await requestManagement(system(), 'GET', '/accounts')) as Accounts;
    const id = String(items.find(({ name }) => name === 'Grace Hopper')?.id);
    const disabled = await press(await open('/accounts'), '/accounts/disable', id);
    expect(disabled.html).to.include('This person’s apps no longer work');
    expect(await lastAudited('account_disabled')).to.include({ account: id });
    const enabled = await press(disabled, '/accounts/enable', id);
    expect(enabled.html).to.include('This person can sign in and connect apps again.');
    expect((await lastAudited('account_enabled'))?.['by']).to.match(/^account:[\w-]{27}$/);
  });

  let elapsed = 0;

  /** Moves the clock past the actions of other tests, because a sign-in within the same second does not count. */
  async function graceConnected() {
    advanceClock((elapsed += 60));
    const connector = await createConnector(system());
    const { accessToken } = await connect(system(), connector, { person: 'grace' });
    const id = String(decodeJwt(accessToken).sub);
    return { id, isConnected: () => isAccepted(connector.link, accessToken) };
  }

  it('LOG-05 a person is forgotten after an explanation of the effect', async () => {
    const { id, isConnected } = await graceConnected();
    const list = await open('/accounts');
    expect(list.html).to.match(
      /Erases the name.+disconnects all of this person’s apps.+doesn’t block sign-in.+You can’t undo this\./,
    );
    const forgotten = await press(list, '/accounts/forget', id);
    expect(forgotten.html)
      .to.include('their personal data is erased')
      .and.not.include(id)
      .and.not.match(/\bgrace\b/i);
    expect(await isConnected()).to.equal(false);
    const ada = await lastAudited('console_sign_in');
    expect(await lastAudited('account_forgotten')).to.include({
      account: id,
      by: `account:${ada?.account}`,
    });
    const { status } = await press(list, '/accounts/disable', id);
    expect(status, 'of a list that is out of date').to.equal(404);
    expect((await open('/accounts')).html).not.to.include(id);
  });

  it('LOG-05 a disabled person who is forgotten stays in the list and can be enabled', async () => {
    const { id } = await graceConnected();
    const disabled = await press(await open('/accounts'), '/accounts/disable', id);
    const forgotten = await press(disabled, '/accounts/forget', id);
    const [, item = ''] = forgotten.html.split(`Deleted person</a> <span class="code scope">${id}`);
    expect(item.split('</tr>')[0])
      .to.include('Deleted, disabled')
      .and.include('as a new person. Erased data')
      .and.include('<dt>Deleted</dt>')
      .and.include('/accounts/enable')
      .and.not.include('/accounts/forget')
      .and.not.include('Identity provider');
    expect((await press(forgotten, '/accounts/enable', id)).html).not.to.include(id);
  });

  it('LOG-05 an administrator who forgets their own account can sign in again at once', async () => {
    const page = requirePage(await browser.visit(at('/accounts')));
    const self = String((await lastAudited('console_sign_in'))?.['account']);
    const inside = await press(page, '/accounts/forget', self);
    expect(inside.status).to.equal(200);
    expect(inside.html).to.include('Ada Lovelace').and.include(self);
  });

  it('LOG-05 an administrator who is forgotten twice in a row is signed out both times', async () => {
    const self = String((await lastAudited('console_sign_in'))?.['account']);
    const inside = await press(await open('/accounts'), '/accounts/forget', self);
    const cookie = cookieHeader(browser.jar, new URL(at('/accounts')));
    const statusThen = async () =>
      (
        await fetch(at('/accounts'), {
          headers: { accept: 'text/html', cookie },
          redirect: 'manual',
        })
      ).status;
    expect(await statusThen()).to.equal(200);
    expect((await press(inside, '/accounts/forget', self)).html).to.include('Ada Lovelace');
    expect(await statusThen()).to.equal(303);
  });

  it('the audit log lists the newest items first, filtered by event and period, in pages', async () => {
    const make = (name: string) =>
      requestManagement(system(), 'POST', '/connectors', { name, level: 'analytics' });
    for (let made = 1; made <= 55; made += 1) await make(`Made ${made}`);
    const first = await open('/audit?since=hour&event=connector_created');
    await make('Made after the first page was read');
    const next = /href="([^"]*after=[^"]*)"/.exec(first.html)?.[1]?.replaceAll('&amp;', '&') ?? '';
    const second = requirePage(await browser.visit(system().management + next));
    for (const { html } of [first, second])
      expect(html)
        .to.include('<option value="hour" selected>')
        .and.include('>connector_created<')
        .and.not.include('>console_sign_in<');
    const named = [
      ...`${first.html}${second.html}`.matchAll(
        /connector <a [^>]*><bdi class="name">Made ([^<]+)</g,
      ),
    ];
    const downwards = Array.from({ length: 55 }, (_, index) => String(55 - index));
    expect(named.map(([, name]) => name)).to.deep.equal(downwards);
  });

  it('the audit log pages back to its beginning from any period', async () => {
    await createConnector(system(), { name: 'Of two weeks ago' });
    advanceClock(14 * 86_400);
    const page = requirePage(await browser.visit(at('/audit')));
    await browser.submit(page, { person: 'ada' });
    expect((await open('/audit')).html).to.include('Of two weeks ago');
    expect((await open('/audit?since=week')).html).not.to.include('Of two weeks ago');
  });

  it('the audit log says if nothing matches', async () => {
    expect((await open('/audit?event=code_replay')).html).to.include('No matching entries.');
  });

  it('the health page shows which servers respond and the signing keys', async () => {
    const { html } = await open('/health');
    expect(html.match(/>Available</g)).to.have.length(3);
    expect(html).to.include('>Active<').and.not.include('Unavailable');
  });

  it('the health page says how far back the audit log has all calls, and how many the store has room for', async () => {
    const { html } = await open('/health');
    expect(html).to.match(/Calls reach back<.*>90\u00A0days</);
    expect(html).to.include('1,000,000 calls');
    expect(html).to.match(/Free space in the database<\/dt><dd>[\d,]+ calls?</);
  });

  it('ADM-07 an invalid cursor is refused with an explanation on every list', async () => {
    for (const list of ['connectors', 'tokens', 'clients', 'grants', 'accounts', 'audit']) {
      const after = 'x'.repeat(501);
      const page = requirePage(await browser.visit(at(`/${list}?after=${after}`)));
      expect(page.status, list).to.equal(400);
      expect(page.html).to.include('This request isn’t valid');
    }
  });

  it('connections are counted and can be sorted up to 1,000, and a longer list says so', async () => {
    const { store } = await openSystemStore(system());
    const { id: connector } = await createConnector(system(), { level: 'analytics' });
    const now = Date.now() / 1000;
    const exp = now + 3600;
    const client = { name: 'An app', redirectHost: 'app.example.com' };
    const approve = async (n: number) => {
      const grantId = `grant-number-${String(n).padStart(6, '0')}`;
      const grant = { accountId: 'nobody', clientId: 'an-app-of-many', exp };
      const owners = { account: 'nobody', client: 'an-app-of-many', connector };
      await listGrant(store, grantId, owners, { lifetime: 3600, now });
      await addGrant(store, grantId, { connector, client, grant }, LIFETIMES, now);
    };
    const approveFrom = (first: number, count: number) =>
      Promise.all(Array.from({ length: count }, (_, n) => approve(first + n)));
    await approveFrom(0, 250);
    const few = await open(`/grants?connector=${connector}`);
    expect(few.html).to.include('250 results').and.include('sort=title');
    await approveFrom(250, 751);
    const many = await open(`/grants?connector=${connector}`);
    expect(many.html).to.include('More than 1,000 results').and.not.include('sort=title');
    const sorted = await open(`/grants?connector=${connector}&sort=title`);
    expect(sorted.html).to.include('This list is too long to be sorted');
    await store.close();
  });

  it('apps of a state are counted and can be sorted, however many others there are', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    for (let count = 0; count < 2; count += 1) {
      const { id } = await registerClient(server);
      await requestManagement(system(), 'POST', '/clients/revoke', { id });
    }
    const { store } = await openSystemStore(system());
    const now = Date.now() / 1000;
    const connected = Array.from({ length: 1001 }, (_, n) => ({
      account: 'nobody',
      client: `app-${n}`,
      connector: 'none',
    }));
    await Promise.all(
      connected.map((owners) => listGrant(store, owners.client, owners, { lifetime: 3600, now })),
    );
    await store.close();
    expect((await open('/clients')).html).to.not.include('sort=title');
    const revoked = await open('/clients?state=revoked');
    expect(revoked.html).to.include('2 results').and.include('sort=title');
  });

  it('records that no longer exist are reported as unknown', async () => {
    const page = await open('/grants');
    const token = page.forms
      .flatMap(({ controls }) => controls)
      .find(({ name }) => name === 'token');
    for (const path of [
      '/grants/end',
      '/clients/revoke',
      '/accounts/forget',
      '/accounts/disable',
      '/tokens/revoke',
    ]) {
      const fields = new URLSearchParams({ token: String(token?.value), id: 'unknown' });
      const answer = requirePage(await browser.post(page, new URL(at(path)), fields));
      expect(answer.status, path).to.equal(404);
      expect(answer.html).to.include('Page not found');
    }
  });

  it('LOG-05 a form from another page forgets nobody', async () => {
    const { id, isConnected } = await graceConnected();
    const page = await open('/accounts');
    for (const token of ['', 'x']) {
      const fields = new URLSearchParams({ token, id });
      const answer = requirePage(await browser.post(page, new URL(at('/accounts/forget')), fields));
      expect(answer.status, token).to.equal(403);
    }
    expect(await isConnected()).to.equal(true);
    expect((await open('/accounts')).html).to.include('Grace Hopper');
  });

  it('people of a list of more than 1,000 are not sorted by name, which would begin again on each page', async () => {
    const { store } = await openSystemStore(system());
    const key = createSecretKey(randomBytes(32));
    const now = Date.now() / 1000;
    const save = (n: number) => {
      const name = `Person ${n}`;
      const claims = { name, emailVerified: false, groups: [] };
      const identity = { issuer: 'https://login.example.com', subject: name, ...claims };
      return saveAccount(store, key, identity, { now, ttl: 3600 });
    };
    await Promise.all(Array.from({ length: 1001 }, (_, n) => save(n)));
    await store.close();
    const { html } = await open('/accounts');
    type Listed = { items: { name: string }[] };
    const { items } = (await requestManagement(system(), 'GET', '/accounts?limit=50')) as Listed;
    const shown = [...html.matchAll(/<h3[^>]*><a [^>]*><bdi class="claim">([^<]*)</g)];
    expect(shown.map(([, name]) => name)).to.deep.equal(items.map(({ name }) => name));
    expect(html).to.not.include('aria-sort');
  });
});
