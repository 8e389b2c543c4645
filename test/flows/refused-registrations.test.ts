// Apps whose registration was refused because the settings allow none of their redirect hosts.
import { expect } from 'chai';
import { z } from 'zod';
import { accessTo, gatehouse } from '../management/command-line.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { NO_LIMITS } from '../support/no-limits.ts';
import { discover, register, type Server } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';
import { until } from '../support/until.ts';

const page = z.object({
  items: z.array(
    z.looseObject({
      name: z.string().optional(),
      redirectUris: z.array(z.string()),
      lastSeenAt: z.string(),
      allowWith: z.string(),
    }),
  ),
  next: z.string().optional(),
});

describe('An app whose redirect hosts are all refused', () => {
  const system = useSystem({ file: { limits: NO_LIMITS } });
  let server: Server;
  afterEach(restoreClock);
  before(async () => {
    ({ server } = await discover((await createConnector(system())).link));
  });

  const refused = async (query = '') =>
    page.parse(
      await requestManagement(
        system(),
        'GET',
        `/clients?state=redirect_refused&limit=1000${query}`,
      ),
    ).items;
  const tryToRegister = async (name: string, ...uris: string[]) => {
    const { status, body } = await register(server, { client_name: name, redirect_uris: uris });
    expect([status, body.error]).to.deep.equal([400, 'invalid_redirect_uri']);
  };
  const named = (name: string) =>
    until(name, async () => (await refused()).find((each) => each.name === name));

  it('is listed with its name, its addresses and the line that would allow it', async () => {
    await tryToRegister('Grok', 'https://grok.com/connectors-oauth-exchange-code/');
    const found = await named('Grok');
    expect(found.redirectUris).to.deep.equal(['https://grok.com/connectors-oauth-exchange-code/']);
    expect(found.allowWith).to.equal('clients.apps: [claude, grok]');
    await tryToRegister('Own app', 'https://own.example/cb');
    const own = await named('Own app');
    expect(own.allowWith).to.equal('clients.allowedRedirects: ["https://own.example/cb"]');
    const { stdout } = await gatehouse(
      ['client', 'list'],
      accessTo({ url: system().management }, system().managementKey),
    );
    expect(stdout).to.include('redirect_refused; to allow it: clients.apps: [claude, grok]');
  });

  it('is listed once for its name and hosts, and can neither be allowed nor revoked', async () => {
    await tryToRegister('Twice', 'https://twice.example/one');
    await named('Twice');
    await tryToRegister('Twice', 'https://twice.example/two');
    await until('the second address', async () =>
      (await named('Twice')).redirectUris.includes('https://twice.example/two'),
    );
    const all = (await refused()).filter(({ name }) => name === 'Twice');
    expect(all).to.have.length(1);
    for (const change of ['allow', 'revoke']) {
      const answer = await requestManagement(system(), 'POST', `/clients/${change}`, {
        id: String(all[0]?.['id']),
      }).catch(String);
      expect(answer).to.include('404');
    }
  });

  it('TRY-01 pages have each of them once, although one is tried again between two pages', async () => {
    const names = ['One', 'Two', 'Three', 'Four'].map((name) => `Paged ${name}`);
    for (const name of names) {
      await tryToRegister(name, `https://${name.slice(6).toLowerCase()}.example/paged`);
      await named(name);
    }
    const query = '/clients?state=redirect_refused&q=Paged&limit=2';
    const first = page.parse(await requestManagement(system(), 'GET', query));
    const last = first.items.at(-1)?.name ?? '';
    const again = names.filter((name) => !first.items.some((each) => each.name === name));
    for (const name of [last, again[0] ?? '']) {
      const seen = await named(name);
      advanceClock(60);
      await tryToRegister(name, `https://${name.slice(6).toLowerCase()}.example/paged`);
      await until('the time', async () => (await named(name)).lastSeenAt !== seen.lastSeenAt);
    }
    const after = encodeURIComponent(first.next ?? '');
    const rest = page.parse(await requestManagement(system(), 'GET', `${query}&after=${after}`));
    const listed = [...first.items, ...rest.items].map(({ name }) => name);
    expect(listed).to.have.members(names);
  });

  it('TRY-01 at most 100 are listed, the last ones', async () => {
    for (let n = 0; n < 105; n += 1) await tryToRegister(`App ${n}`, `https://app${n}.example/cb`);
    await named('App 104');
    const all = await refused();
    expect(all).to.have.length(100);
    expect(all.map(({ name }) => name)).to.not.include('App 1');
  });
});
