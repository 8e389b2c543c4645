import { createSecretKey, randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { accountIdOf } from '../../src/people/account.ts';
import { findAccount, saveAccount } from '../../src/people/accounts.ts';
import { readAuditAfter } from '../../src/audit/audit-log.ts';
import { accessTo, gatehouse } from './command-line.ts';
import {
  ACCOUNT_LIFETIME,
  type ManagementHost,
  openManagementHost,
  request,
} from './management-host.ts';

const ISSUER = 'https://login.example.com';
const KEY = createSecretKey(randomBytes(32));
const ACCOUNTS = '/api/v1/accounts';

describe('accounts over the management API', () => {
  let host: ManagementHost;
  beforeEach(async () => {
    host = await openManagementHost();
  });
  afterEach(() => host.close());

  const nowThere = () => host.now();

  const signIn = (subject: string, more: { name?: string; email?: string } = {}) =>
    saveAccount(
      host.store,
      KEY,
      { issuer: ISSUER, subject, name: subject, emailVerified: true, groups: [], ...more },
      { now: nowThere(), ttl: ACCOUNT_LIFETIME },
    );

  const change = (id: string, what: 'disable' | 'enable' | 'forget') =>
    request(host, 'POST', `${ACCOUNTS}/${id}/${what}`);

  async function events(): Promise<unknown[]> {
    const entries = await readAuditAfter(host.store, 0, 100);
    return entries.map(({ item }) => [item?.event, item?.account, item?.outcome]);
  }

  it('an account shows the person, the identity provider and the last sign-in', async () => {
    const { id, signedInAt } = await signIn('ada', { name: 'Ada', email: 'ada@example.com' });
    const { status, body } = await request(host, 'GET', `${ACCOUNTS}/${id}`);
    expect(status).to.equal(200);
    expect(body).to.deep.equal({
      id,
      name: 'Ada',
      email: 'ada@example.com',
      emailVerified: true,
      identityProvider: ISSUER,
      subject: 'ada',
      signedInAt: new Date(signedInAt * 1000).toISOString(),
      claims: {
        name: 'Ada',
        email: 'ada@example.com',
        emailVerified: true,
        groups: [],
        provider: ISSUER,
        time: new Date(signedInAt * 1000).toISOString(),
      },
      limits: [],
      keptOut: [],
      access: [],
    });
  });

  it('the pages of the list contain every account once', async () => {
    const made = await Promise.all(Array.from({ length: 25 }, (_, n) => signIn(`person ${n}`)));
    await signIn('person 3');
    const ids: unknown[] = [];
    for (let path: string | undefined = `${ACCOUNTS}?limit=10`; path;) {
      const { body } = await request(host, 'GET', path);
      const items = body['items'] as { id: string }[];
      ids.push(...items.map(({ id }) => id));
      const { next } = body;
      path = next === undefined ? undefined : `${ACCOUNTS}?limit=10&after=${next}`;
    }
    expect(ids).to.have.length(25);
    expect(ids).to.have.members(made.map(({ id }) => id));
  });

  it('an expired account leaves the list and the store', async () => {
    const { id } = await signIn('ada');
    await host.store.delete(`account:${id}`);
    expect((await request(host, 'GET', ACCOUNTS)).body).to.deep.equal({ items: [] });
    expect(await host.store.members('accounts:all')).to.deep.equal([]);
  });

  it('disabling and enabling an account are idempotent and recorded once each', async () => {
    const { id } = await signIn('ada');
    for (const _ of [1, 2]) {
      const { status, body } = await change(id, 'disable');
      expect(status).to.equal(200);
      expect(body).to.have.property('disabledAt');
    }
    host.clock.ahead += 60;
    for (const _ of [1, 2]) expect((await change(id, 'enable')).body).to.not.have.key('disabledAt');
    expect(await events()).to.deep.equal([
      ['account_disabled', id, 'done'],
      ['account_enabled', id, 'done'],
    ]);
  });

  it('disabling an account is published to every process', async () => {
    const { id } = await signIn('ada');
    const published = new Promise((resolve) => {
      void host.store.subscribe('accounts', resolve);
    });
    await change(id, 'disable');
    expect(await published).to.equal(id);
  });

  it('a disabled account stays disabled after a sign-in and never expires', async () => {
    const { id } = await signIn('ada');
    await change(id, 'disable');
    await signIn('ada', { name: 'Ada Lovelace' });
    host.clock.ahead += 2 * ACCOUNT_LIFETIME;
    const { disabledAt, name } = (await findAccount(host.store, id)) ?? {};
    expect(disabledAt).to.be.a('number');
    expect(name).to.equal('Ada Lovelace');
  });

  it('LOG-05 showing or disabling a forgotten account returns 404 and creates no record', async () => {
    const { id } = await signIn('ada', { name: 'Ada' });
    await change(id, 'forget');
    const before = await host.store.get(`account:${id}`);
    for (const { status, body } of [
      await change(id, 'disable'),
      await request(host, 'GET', `${ACCOUNTS}/${id}`),
    ])
      expect([status, body['error']]).to.deep.equal([404, 'not_found']);
    expect((await request(host, 'GET', ACCOUNTS)).body).to.deep.equal({ items: [] });
    expect(await host.store.get(`account:${id}`)).to.deep.equal(before);
    expect(await events()).to.deep.equal([['account_forgotten', id, 'done']]);
    await signIn('ada', { name: 'Ada' });
    expect((await change(id, 'disable')).status, 'somebody new').to.equal(200);
  });

  describe('account commands', () => {
    const run = (...args: string[]) => gatehouse(args, accessTo(host));

    it('the account commands list by name, show, disable and enable, as text and as JSON', async () => {
      const { id } = await signIn('grace', { name: 'Grace', email: 'grace@example.com' });
      await signIn('ada', { name: 'Ada' });
      const { stdout: list } = await run('account', 'list');
      expect(list).to.match(/^ID +NAME +EMAIL +LAST SIGN-IN +DISABLED\n.+ Ada .+\n.+ Grace /);
      const { stdout: disabled } = await run('account', 'disable', id);
      expect(disabled).to.include('Disabled Grace').and.include(`gatehouse account enable ${id}`);
      expect((await run('account', 'show', id)).stdout).to.match(/disabled +since \d{4}-/);
      const shown = JSON.parse((await run('account', 'show', id, '--json')).stdout);
      expect(shown).to.include({ id, name: 'Grace' }).and.have.property('disabledAt');
      expect((await run('account', 'enable', id)).stdout).to.include('Enabled Grace');
      const { items } = JSON.parse((await run('account', 'list', '--json')).stdout);
      expect(items.map(({ name }: { name: string }) => name)).to.deep.equal(['Ada', 'Grace']);
      const unknown = await run('account', 'disable', 'x'.repeat(27));
      expect(unknown).to.include({ code: 1 });
      expect(unknown.stderr).to.include('there is no account with this id');
    });

    it('LOG-05 account forget deletes personal data and keeps a disabled account disabled', async () => {
      const [grace, ada] = [
        await signIn('grace', { name: 'Grace', email: 'grace@example.com' }),
        await signIn('ada', { name: 'Ada' }),
      ];
      await change(ada.id, 'disable');
      const { stdout } = await run('account', 'forget', grace.id);
      expect(stdout).to.include(`personal data of ${grace.id}`).and.include('can sign in again');
      expect((await run('account', 'forget', ada.id)).stdout).to.include(
        'The account stays disabled',
      );
      const { stdout: list } = await run('account', 'list');
      expect(list)
        .to.include(ada.id)
        .and.not.match(/\bgrace\b|\bada\b/i);
      expect((await run('account', 'show', grace.id)).code).to.equal(1);
      const shown = JSON.parse((await run('account', 'show', ada.id, '--json')).stdout);
      expect(shown).to.include({ id: ada.id, name: ada.id, subject: '' });
      expect(shown).to.have.property('forgottenAt');
      const { stdout: details } = await run('account', 'show', ada.id);
      expect(details).to.match(/subject +-\n.*\n.*\n +forgotten +\d{4}-/);
      host.clock.ahead += ACCOUNT_LIFETIME + 1;
      expect(await findAccount(host.store, grace.id)).to.equal(undefined);
      expect(await findAccount(host.store, ada.id)).to.have.property('disabledAt');
    });

    it('an account id that starts with a dash is not parsed as an option', async () => {
      for (let n = 0; ; n += 1) {
        if (!accountIdOf(KEY, ISSUER, `person ${n}`).startsWith('-')) continue;
        const { id } = await signIn(`person ${n}`);
        const { code, stdout } = await run('account', 'show', id, '--json');
        expect(code).to.equal(0);
        expect(JSON.parse(stdout)).to.include({ id });
        return;
      }
    });
  });
});
