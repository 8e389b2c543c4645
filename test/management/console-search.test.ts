import { createSecretKey, randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { clientKey } from '../../src/clients/clients.ts';
import { connectedClientSets } from '../../src/connections/grant-lists.ts';
import { saveAccount } from '../../src/people/accounts.ts';
import { connect, openConsent, REDIRECT_URI, registerClient } from '../support/connection.ts';
import { useConsole } from '../support/console.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { discover } from '../support/oauth.ts';
import { listGrant } from '../support/list-grant.ts';
import { openSystemStore } from '../support/system-store.ts';

describe('the search of the lists in the console and the API', () => {
  const { system, signIn, open } = useConsole();
  const titles = (html: string) =>
    [...html.matchAll(/<h3[^>]*>(?:<a [^>]*>)?<bdi class="claim">([^<]*)</g)].map(([, t]) => t);

  before(async () => {
    const numbers = await createConnector(system(), { name: 'Search numbers' });
    await createConnector(system(), { name: 'Search orders' });
    await connect(system(), numbers, { person: 'grace' });
  });

  it('words in any case find connectors, people, apps and connections, and each row links to its page', async () => {
    const { browser } = await signIn();
    const found = async (path: string) => (await open(browser, path)).html;
    expect(titles(await found('/connectors?q=NUMBERS+search'))).to.deep.equal(['Search numbers']);
    const people = await found('/accounts?q=GRACE%40EXAMPLE');
    expect(titles(people)).to.deep.equal(['Grace Hopper']);
    expect(people).to.match(/<h3[^>]*><a href="\/console\/accounts\//);
    const connections = await found('/grants?q=hopper+numbers&state=active');
    expect(titles(connections)).to.have.length(1);
    expect(connections)
      .to.match(/1 result\s+for\s*<bdi class="claim">hopper numbers</)
      .and.match(/href="\/console\/connectors\/\w{22}"/);
    expect(titles(await found('/clients?q=no-such-app'))).to.deep.equal([]);
    expect(titles(await found('/grants?q=hopper&state=ended'))).to.deep.equal([]);
  });

  it('people are listed by name, which the heading of the column says', async () => {
    await openConsent(system(), await createConnector(system()), { person: 'alan' });
    const { browser } = await signIn();
    const { html } = await open(browser, '/accounts');
    expect(html).to.match(/aria-sort="ascending"><a href="[^"]*sort=-title"/);
    expect(titles(html)).to.deep.equal(['Ada Lovelace', 'Alan Turing', 'Grace Hopper']);
  });

  it('the search in everything has its words in the title, and people before connections and apps', async () => {
    const { browser } = await signIn();
    const connector = await createConnector(system(), { name: 'hopper' });
    const { server } = await discover(connector.link);
    const client = await registerClient(server, 'none', REDIRECT_URI, 'hopper');
    await connect(system(), connector, { person: 'grace', as: { client } });
    const { html } = await open(browser, '/search?q=hopper');
    expect(html).to.match(/<title>Search: hopper /);
    const sections = [...html.matchAll(/id="found-(\w+)"/g)].map(([, name]) => name);
    // The attempt of the app is written when it rests.
    const written = sections.filter((name) => name !== 'attempts');
    expect(written).to.deep.equal(['accounts', 'grants', 'clients', 'connectors']);
  });

  it('apps of one name differ by who connected them, in the list, in the search and on their pages', async () => {
    const connector = await createConnector(system(), { name: 'Apps of one name' });
    const { client } = await connect(system(), connector, { person: 'grace' });
    const other = await connect(system(), connector, { person: 'ada' });
    const { browser } = await signIn();
    const rowOf = (html: string, id: string) =>
      html.split('<tr class="row"').find((each) => each.includes(`/clients/${id}"`));
    for (const path of ['/clients', '/clients?sort=title', `/search?q=${client.id}`]) {
      const { html } = await open(browser, path);
      expect(rowOf(html, client.id), path).to.match(
        />Person<[^]*\/console\/accounts\/[^]*grace@example/,
      );
      if (path !== '/clients') continue;
      expect(rowOf(html, other.client.id)).to.include('ada@example');
      expect(html).to.not.include('sort=person');
    }
    expect((await open(browser, `/clients/${client.id}`)).html).to.match(
      /<h1 id="record">.* · <bdi>grace@/,
    );
  });

  it('an app of several people, or of more connections than are read, leads to its connections', async () => {
    const connector = await createConnector(system());
    const { client: shared } = await connect(system(), connector, { person: 'grace' });
    const { browser } = await signIn();
    const linkOf = async (client: { id: string }) => {
      const { html } = await open(browser, `/clients?q=${client.id}`);
      return new RegExp(`<a href="/console/grants\\?client=${client.id}">([^<]*)<`).exec(html)?.[1];
    };
    expect(await linkOf(shared)).to.equal(undefined);
    await connect(system(), connector, { person: 'ada', as: { client: shared } });
    expect(await linkOf(shared)).to.equal('Several people');
    const { client } = await connect(system(), connector, { person: 'grace' });
    for (let count = 0; count < 3; count += 1)
      await connect(system(), connector, { person: 'grace', as: { client } });
    expect(await linkOf(client)).to.equal('Several connections');
  });

  it('a search without results says how to widen it, and shows the words escaped', async () => {
    const { browser } = await signIn();
    const q = `"><script>alert(1)</script>`;
    for (const list of ['connectors', 'tokens', 'clients', 'accounts', 'grants']) {
      const { html, status } = await open(browser, `/${list}?q=${encodeURIComponent(q)}`);
      expect(status, list).to.equal(200);
      expect(html, list)
        .to.include('Try fewer or shorter words')
        .and.include(`<a href="/console/${list}">Clear search and filters</a>`)
        .and.include('value="&#34;&gt;&lt;script&gt;')
        .and.not.include('<script>');
      const long = await open(browser, `/${list}?q=${'x'.repeat(201)}`);
      expect(long.status, list).to.equal(400);
    }
  });

  it('the next page keeps the search, and the API pages through the same results', async () => {
    for (let n = 0; n < 101; n += 1) await createConnector(system(), { name: `Paged no-${n}` });
    const { browser } = await signIn();
    const { html } = await open(browser, '/connectors?q=paged&state=active');
    const [, next = ''] = /rel="next" href="\/console([^"]*)"/.exec(html) ?? [];
    expect(next).to.include('q=paged').and.include('state=active');
    const second = await open(browser, next.replaceAll('&amp;', '&'));
    const paged = Array.from({ length: 101 }, (_, n) => `Paged no-${n}`);
    // Sorted, because the clock of the machine can be set back between two of them.
    expect([...titles(html), ...titles(second.html)].sort()).to.deep.equal(paged.sort());
    expect(titles(second.html)).to.have.length(1);
    type Found = { items: { name: string }[]; next?: string };
    const read = async (query: string) =>
      (await requestManagement(system(), 'GET', `/connectors?${query}`)) as Found;
    // No id contains a dash.
    expect((await read('q=PAGED+NO-100')).items.map(({ name }) => name)).to.deep.equal([
      'Paged no-100',
    ]);
    expect((await read('q=paged&state=revoked')).items).to.deep.equal([]);
    const first = await read('q=paged&limit=100');
    expect(first.items).to.have.length(100);
    expect((await read(`q=paged&limit=100&after=${first.next}`)).items).to.have.length(1);
  });

  it('the script of the console is one file of its own origin, and other pages have none', async () => {
    const { page } = await signIn();
    const [, path = ''] = /<script src="([^"]+)" defer><\/script>/.exec(page.html) ?? [];
    expect(path).to.match(/^\/assets\/copy\.js\?v=[\w-]{22}$/);
    const script = await fetch(system().management + path);
    expect(script.status).to.equal(200);
    expect(script.headers.get('content-type')).to.match(/^(text|application)\/javascript/);
    const home = await fetch(`${system().auth}/`, { headers: { accept: 'text/html' } });
    expect(await home.text()).not.to.include('<script');
    expect(home.headers.get('content-security-policy')).not.to.include('script-src');
  });

  it('the search in everything finds people of a long list by name, and names the long lists that it did not read whole', async () => {
    const { browser } = await signIn();
    const unread = async (q: string) =>
      /Only the beginning of long lists[^]*?<\/p>/.exec(
        (await open(browser, `/search?q=${q}`)).html,
      )?.[0];
    expect(await unread('no-such-word')).to.equal(undefined);
    const { store } = await openSystemStore(system());
    const key = createSecretKey(randomBytes(32));
    const now = Math.floor(Date.now() / 1000);
    const times = { now, ttl: 3600 };
    const signedIn = (subject: string, name: string) => {
      const identity = { subject, name, groups: [], emailVerified: false };
      return saveAccount(store, key, { issuer: system().auth, ...identity }, times);
    };
    await Promise.all(Array.from({ length: 250 }, (_, n) => signedIn(`${n}`, `Somebody ${n}`)));
    const { id: wanted } = await signedIn('wanted', 'Konrad Zusewitz');
    await signedIn('alike', 'Search Somebody');
    const connector = await createConnector(system(), { name: 'Of many apps' });
    const metadata = { client_name: 'App', redirect_uris: [REDIRECT_URI] };
    for (let n = 0; n < 250; n += 1) {
      const client = `app-of-many-people-${n}`.padEnd(30, 'x');
      const listed = { lifetime: 3600, now };
      await store.set(clientKey(client), { metadata, usedAt: now }, 3600);
      const owners = { account: wanted, client, connector: connector.id };
      await listGrant(store, `grant-that-expired-${n}`, owners, listed);
    }
    const [apps = ''] = connectedClientSets({ lifetime: 3600, now }).toReversed();
    const [lastApp = ''] = await store.page(apps, { limit: 1, newestFirst: true });
    await store.close();
    const { html } = await open(browser, '/search?q=zusewitz');
    expect(titles(html)).to.include('Konrad Zusewitz');
    // There may be others, at which it did not look.
    expect(html).to.include('<a href="/console/accounts?q=zusewitz">All results: People</a>');
    expect(titles((await open(browser, `/search?q=${wanted}`)).html)).to.deep.equal([
      'Konrad Zusewitz',
    ]);
    const { items } = (await requestManagement(system(), 'GET', '/grants')) as {
      items: { id: string }[];
    };
    for (const { id } of items) {
      const { html: page } = await open(browser, `/search?q=${id}`);
      expect(page).to.include(`href="/console/grants/${id}"`).and.not.include('found-accounts');
    }
    const app = await open(browser, `/search?q=${lastApp}`);
    expect(app.html).to.include(`/console/clients/${lastApp}"`);
    const named = await unread('no-such-word');
    expect(named).to.include('<a href="/console/accounts?q=no-such-word">People</a>');
    for (const whole of ['connectors', 'grants']) expect(named).to.not.include(`/${whole}?`);
    // Somebody with a word of the connector has no connection.
    const alike = await open(browser, '/search?q=search+numbers');
    expect(alike.html).to.include('id="found-grants"');
  });
});

// https://github.com/keycloak/keycloak/issues/43780 and https://github.com/keycloak/keycloak/issues/36513
describe('the search for people whose addresses have characters with a meaning in addresses and patterns', () => {
  const people = [
    { id: 'ada', name: 'Ada Lovelace', email: 'ada@example.com' },
    { id: 'grace', name: 'Plus', email: 'name+surname@example.com' },
    { id: 'alan', name: 'Underscore', email: 'name_surname@example.com' },
  ];
  const entitlements = [{ match: { emailDomain: 'example.com' }, level: 'analytics' }];
  const { system, signIn, open } = useConsole({
    file: {
      developmentIdp: { url: 'http://localhost:4003', people },
      management: { administrators: [{ subject: 'ada' }] },
      entitlements,
    },
  });

  it('such an address finds its person and nobody else, in the API and the console', async () => {
    const connector = await createConnector(system());
    for (const person of ['grace', 'alan'] as const) await connect(system(), connector, { person });
    const { browser } = await signIn();
    for (const [q, name] of [
      ['name+surname@example.com', 'Plus'],
      ['e+s', 'Plus'],
      ['name_surname@example.com', 'Underscore'],
      ['e_s', 'Underscore'],
      ['e%s', undefined],
      ['e*s', undefined],
    ]) {
      const query = new URLSearchParams({ q: String(q) });
      const { items } = (await requestManagement(system(), 'GET', `/accounts?${query}`)) as {
        items: { name: string }[];
      };
      expect(
        items.map((item) => item.name),
        q,
      ).to.deep.equal(name ? [name] : []);
      const { html } = await open(browser, `/accounts?${query}`);
      const expected = name ? [`>${name}<`] : ['Try fewer or shorter words'];
      expect(html, q).to.include(expected[0] ?? '');
    }
  });
});
