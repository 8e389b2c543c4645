import { expect } from 'chai';
import { requirePage } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect } from '../support/connection.ts';
import { formTokenIn, useConsole } from '../support/console.ts';
import { unescapeHtml } from '../support/html-forms.ts';
import { changeAccount, createConnector, requestManagement } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { openSystemStore } from '../support/system-store.ts';
import type { Person } from '../support/browser.ts';

const ADMINISTRATORS = [
  { subject: 'ada' },
  { subject: 'grace', role: 'operator' },
  { subject: 'alan', role: 'operator' },
];

describe('what a person created, on the page of this person in the console', () => {
  const { system, consoleUrl, open, signIn, audited } = useConsole({
    file: { management: { administrators: ADMINISTRATORS } },
  });

  afterEach(restoreClock);

  /** Creates a token in the console. Resolves to the token. */
  async function mint(person: Person, name: string, days = ''): Promise<string> {
    const { browser, page } = await signIn('/tokens/new', person);
    const minted = requirePage(await browser.submit(page, { name, level: 'analytics', days }));
    return /id="token"[^>]*>([^<]+)</.exec(minted.html)?.[1] ?? '';
  }

  /** Creates a machine in the console. Resolves to its id. */
  async function createMachine(person: Person, connector: string, name: string): Promise<string> {
    const { browser, page } = await signIn(`/connectors/${connector}/machine`, person);
    const made = requirePage(await browser.submit(page, { name, level: 'operations', keys: '' }));
    return /data-copied-text="Copy Client ID of [^"]*">([^<]+)</.exec(made.html)?.[1] ?? '';
  }

  /** The account of the last person that signed in to the console. */
  const lastSignedIn = async () => String((await audited('console_sign_in')).at(-1)?.account);

  /** The list on the page of a person, as Ada sees it. */
  async function createdBy(account: string): Promise<string> {
    const { browser } = await signIn();
    const page = await open(browser, `/accounts/${account}`);
    expect(page.status).to.equal(200);
    const [, list = ''] = page.html.split('id="created"');
    return unescapeHtml(list.split('</section>')[0] ?? '');
  }

  it('for a person who created nothing, or whose records do not say so, the page says where to look', async () => {
    await requestManagement(system(), 'POST', '/tokens', { name: 'By a key', level: 'full' });
    const connector = await createConnector(system());
    await connect(system(), connector, { person: 'grace' });
    const { items } = (await requestManagement(system(), 'GET', '/tokens?q=key')) as {
      items: { id: string; by?: string }[];
    };
    expect(items[0]?.by).to.equal('key:default');
    const { store } = await openSystemStore(system());
    try {
      const key = `minted-token:${items[0]?.id}`;
      await store.update<Record<string, unknown>>(key, (current) => {
        const { by: _, ...record } = current ?? {};
        return { value: record, ttl: 3600 };
      });
    } finally {
      await store.close();
    }
    const older = (await requestManagement(system(), 'GET', '/tokens?q=key')) as typeof items;
    expect(JSON.stringify(older)).to.not.include('"by"');
    const accounts = (await requestManagement(system(), 'GET', '/accounts?q=grace')) as {
      items: { id: string }[];
    };
    expect(await createdBy(String(accounts.items[0]?.id)))
      .to.include('None known.')
      .and.include('href="/console/audit?event=token_minted"')
      .and.include('href="/console/audit?event=machine_created"')
      .and.not.include('By a key');
  });

  it('the page lists tokens and machines of this person with access, expiry and link', async () => {
    const { id: connector } = await createConnector(system(), { name: 'Numbers' });
    await mint('ada', 'Of Ada');
    await mint('grace', 'Nightly & report', '30');
    const machine = await createMachine('grace', connector, 'Nightly job');
    const grace = await lastSignedIn();
    const list = await createdBy(grace);
    expect(list)
      .to.include('Tokens and machines this person created')
      .and.match(
        /href="\/console\/tokens\?q=Nightly\+%26\+report">[^]*Nightly & report<[^]*Token<[^]*Totals only<[^]*Expires/,
      )
      .and.include(`href="/console/clients/${machine}"`)
      .and.match(/Nightly job<[^]*Machine<[^]*Totals and names<[^]*Expires/)
      .and.not.include('Of Ada')
      .and.not.include('too many');
    const { browser } = await signIn();
    const { html } = await open(browser, '/tokens?q=Nightly+%26+report');
    expect(html).to.include('1 result').and.include('Nightly &amp; report');
    const { items } = (await requestManagement(system(), 'GET', '/tokens?q=nightly')) as {
      items: { by?: string }[];
    };
    expect(items.map(({ by }) => by)).to.deep.equal([`account:${grace}`]);
  });

  it('tokens that were revoked or have expired, and machines that were disconnected, revoked or blocked, are not listed', async () => {
    const { id: connector } = await createConnector(system());
    const { id: other } = await createConnector(system());
    await mint('alan', 'Revoked token');
    await mint('alan', 'Short token', '1');
    const [revoked = '', disconnected = ''] = [
      await createMachine('alan', connector, 'Revoked machine'),
      await createMachine('alan', connector, 'Disconnected machine'),
      await createMachine('alan', connector, 'Blocked machine'),
      await createMachine('alan', other, 'Machine of a revoked connector'),
      await createMachine('alan', connector, 'Renewed machine'),
    ];
    const alan = await lastSignedIn();
    const names = async () =>
      [...(await createdBy(alan)).matchAll(/<bdi class="claim">([^<]+)</g)].map(([, name]) => name);
    expect(await names()).to.have.length(7);

    type Listed = { items: { id: string; name: string }[] };
    const tokens = (await requestManagement(system(), 'GET', '/tokens?q=revoked')) as Listed;
    await requestManagement(system(), 'DELETE', `/tokens/${tokens.items[0]?.id}`);
    await requestManagement(system(), 'POST', '/clients/revoke', { id: revoked });
    const grants = (await requestManagement(
      system(),
      'GET',
      `/grants?client=${disconnected}`,
    )) as Listed;
    await requestManagement(system(), 'DELETE', `/grants/${grants.items[0]?.id}`);
    await requestManagement(system(), 'POST', '/client-rules', { name: 'Blocked machine' });
    await requestManagement(system(), 'DELETE', `/connectors/${other}`);
    const clients = (await requestManagement(system(), 'GET', '/clients?q=renewed')) as Listed;
    await requestManagement(system(), 'POST', '/clients/key', { id: clients.items[0]?.id });
    expect(await names()).to.deep.equal(['Short token', 'Renewed machine']);
    advanceClock(2 * 86_400);
    expect(await names()).to.deep.equal(['Renewed machine']);
  });

  it('the list stays when the person is disabled and deleted, without personal data', async () => {
    const connector = await createConnector(system());
    await connect(system(), connector, { person: 'grace' });
    const token = await mint('grace', 'Left behind');
    const grace = await lastSignedIn();
    advanceClock(60);
    await changeAccount(system(), grace, 'disable');
    expect(await createdBy(grace)).to.include('Left behind');
    await changeAccount(system(), grace, 'forget');
    expect(await createdBy(grace))
      .to.include('Left behind')
      .and.not.match(/hopper|example\.com/i);
    expect(await isAccepted(`${system().resource}/mcp`, token)).to.equal(true);
    const all = JSON.stringify(await requestManagement(system(), 'GET', '/tokens?q=left'));
    expect(all)
      .to.include(`account:${grace}`)
      .and.not.match(/hopper|grace/i);
  });

  it('the page lists at most fifty of them, and says that there are more', async () => {
    const { browser, page } = await signIn('/tokens/new');
    const ada = await lastSignedIn();
    for (let nth = 1; nth <= 51; nth += 1) {
      const body = new URLSearchParams({
        token: formTokenIn(page),
        idempotencyKey: String(nth).padStart(43, '0'),
        name: `Token ${nth}`,
        level: 'analytics',
      });
      await browser.post(page, new URL(consoleUrl('/tokens')), body);
    }
    const list = await createdBy(ada);
    expect(list.match(/<bdi class="claim">/g)).to.have.length(50);
    expect(list).to.include('There are too many to list here.').and.include('>Token 51<');
  });
});
