import { expect } from 'chai';
import { createSecretKey } from 'node:crypto';
import type { Account } from '../../src/people/account.ts';
import { saveAccount } from '../../src/people/accounts.ts';
import { clientKey, documentKey, revokeClient } from '../../src/clients/clients.ts';
import { createConnector, findConnector } from '../../src/links/connectors.ts';
import { accessTo, gatehouse } from './command-line.ts';
import { ACCOUNT_LIFETIME, type ManagementHost, openManagementHost } from './management-host.ts';

const NOW = Math.floor(Date.now() / 1000);
const KEY = createSecretKey(Buffer.alloc(32, 1));
const UNKNOWN = {
  connector: 'AAAAAAAAAAAAAAAAAAAAAA',
  account: 'A'.repeat(27),
  client: 'https://unknown.example/client.json',
};

describe('names in place of ids', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
  });
  after(() => host.close());

  const run = (...args: string[]) => gatehouse([...args, '--json'], accessTo(host));

  async function json(...args: string[]) {
    const { code, stdout, stderr } = await run(...args);
    expect([code, stderr], args.join(' ')).to.deep.equal([0, '']);
    return JSON.parse(stdout);
  }

  async function refusal(...args: string[]): Promise<{ error: string; error_description: string }> {
    const { code, stdout, stderr } = await run(...args);
    expect([code, stdout], args.join(' ')).to.deep.equal([1, '']);
    return JSON.parse(stderr);
  }

  const makeConnector = (name: string) =>
    createConnector(host.store, { name, level: 'analytics' }, NOW);

  function makeAccount(subject: string, person: Partial<Account>): Promise<Account> {
    const identity = { issuer: 'https://idp.example', subject, name: subject, groups: [] };
    const times = { now: NOW, ttl: ACCOUNT_LIFETIME };
    return saveAccount(host.store, KEY, { emailVerified: true, ...identity, ...person }, times);
  }

  /** The list of clients has revoked ones also if nobody connected them. */
  async function makeClient(id: string, name: string): Promise<void> {
    const metadata = { client_name: name, redirect_uris: ['https://app.example.com/cb'] };
    await (id.startsWith('https:')
      ? host.store.set(documentKey(id), { document: metadata }, 3600)
      : host.store.set(clientKey(id), { metadata, usedAt: NOW }, 3600));
    await revokeClient(host.store, id, NOW);
  }

  describe('connectors', () => {
    it('a connector is found by its id, its connect link and its name', async () => {
      const { id } = await makeConnector('Front desk');
      const { link } = await json('connector', 'show', id);
      const spellings = [link, `${link}/`, link.replace('mcp.example.com', 'MCP.example.com:443')];
      for (const text of [id, ...spellings, 'Front desk', ' Front desk '])
        expect(await json('connector', 'show', text), text).to.include({ id });
    });

    it('an id takes precedence over a name, and a name may look like an id', async () => {
      const { id } = await makeConnector('Auditors');
      await makeConnector(id);
      expect(await json('connector', 'show', id)).to.include({ id, name: 'Auditors' });
      const named = await makeConnector('ProductionDatabaseTeam');
      expect(await json('connector', 'show', 'ProductionDatabaseTeam')).to.include({
        id: named.id,
      });
    });

    it('a name is compared with its case', async () => {
      await makeConnector('Case');
      expect(await refusal('connector', 'show', 'case')).to.deep.equal({
        error: 'not_found',
        error_description: 'there is no connector with this id, connect link or name',
      });
    });

    it('a name of several connectors changes nothing, and the error lists their ids', async () => {
      const same = [await makeConnector('Twice'), await makeConnector('Twice')];
      for (const command of ['show', 'revoke', 'delete']) {
        const { error, error_description: text } = await refusal('connector', command, 'Twice');
        expect(error).to.equal('ambiguous_name');
        expect(text).to.match(/^2 connectors have this name. Use an id:\n/);
        for (const { id } of same)
          expect(text).to.include(`\n  ${id}  active  analytics  created `);
      }
      await refusal('connector', 'delete', 'Twice', '--yes');
      for (const { id } of same)
        expect(await findConnector(host.store, id)).to.not.have.property('revokedAt');
    });

    it('the error lists at most twenty ids', async () => {
      await Promise.all(Array.from({ length: 23 }, () => makeConnector('Many')));
      const { error_description: text } = await refusal('connector', 'show', 'Many');
      expect(text.split('\n')).to.have.length(22);
      expect(text).to.match(/^23 connectors.*\n {2}… and 3 more$/s);
    });

    it('revoke and delete accept a name and a link', async () => {
      const { id } = await makeConnector('To revoke');
      expect(await json('connector', 'revoke', 'To revoke')).to.include({ id, state: 'revoked' });
      const { link } = await json('connector', 'show', id);
      expect(await json('connector', 'delete', link)).to.include({ id });
      expect(await findConnector(host.store, id)).to.equal(undefined);
    });

    it('a connect link with another address is refused, with the link of the connector', async () => {
      const { id } = await makeConnector('Here');
      const { link } = await json('connector', 'show', id);
      const elsewhere = link.replace('mcp.example.com', 'staging.example.com');
      const { error, error_description: text } = await refusal('connector', 'revoke', elsewhere);
      expect(error).to.equal('not_found');
      expect(text).to.include('another address').and.include(link);
      expect(await findConnector(host.store, id)).to.not.have.property('revokedAt');
    });
  });

  describe('accounts', () => {
    it('an account is found by its id, its verified address and its name', async () => {
      const email = 'ada@example.com';
      const { id } = await makeAccount('ada', { name: 'Ada Lovelace', email });
      for (const text of [id, email, 'ADA@example.com', 'Ada Lovelace'])
        expect(await json('account', 'show', text), text).to.include({ id });
      expect(await json('account', 'disable', email)).to.include.keys('disabledAt');
      expect(await json('account', 'enable', 'Ada Lovelace')).to.not.have.key('disabledAt');
    });

    it('an address that is not verified, or that is only a name, finds nobody', async () => {
      await makeAccount('eve', { email: 'grace@example.com', emailVerified: false });
      await makeAccount('mallory', { name: 'grace@example.com' });
      expect((await refusal('account', 'disable', 'grace@example.com')).error).to.equal(
        'not_found',
      );
    });

    it('an address that several providers verified is ambiguous', async () => {
      const email = 'alan@example.com';
      const accounts = await Promise.all(
        ['https://one.example', 'https://two.example'].map((issuer) =>
          makeAccount('alan', { issuer, email }),
        ),
      );
      const { error, error_description: text } = await refusal('account', 'forget', email);
      expect(error).to.equal('ambiguous_name');
      for (const { id, issuer } of accounts) expect(text).to.include(id).and.include(issuer);
    });
  });

  describe('clients', () => {
    const DOCUMENT = 'https://app.example.com/client.json';

    it('a client is found by its id and its name', async () => {
      await makeClient('a-client-that-registered', 'Notes');
      await makeClient(DOCUMENT, 'Document app');
      for (const [text, id] of [
        ['a-client-that-registered', 'a-client-that-registered'],
        ['Notes', 'a-client-that-registered'],
        [DOCUMENT, DOCUMENT],
        ['Document app', DOCUMENT],
      ] as const)
        expect(await json('client', 'show', text), text).to.include({ id });
      expect(await json('client', 'allow', 'Notes')).to.include({ state: 'allowed' });
    });

    it('a client whose name is the id of another client is not found by it', async () => {
      const stolen = 'https://honest.example/client.json';
      await makeClient('a-client-with-the-name', stolen);
      for (const command of ['show', 'revoke', 'allow'])
        expect((await refusal('client', command, stolen)).error).to.equal('not_found');
    });

    it('a name that several clients gave themselves is ambiguous', async () => {
      await makeClient('one-client-with-this-name', 'Claude');
      await makeClient('two-client-with-this-name', 'Claude');
      const { error, error_description: text } = await refusal('client', 'allow', 'Claude');
      expect(error).to.equal('ambiguous_name');
      expect(text).to.include('one-client-with-this-name').and.include('two-client-with-this-name');
      expect(text).to.include('https://app.example.com/cb');
    });
  });

  describe('minted tokens', () => {
    const mint = (name: string) => json('token', 'mint', '--name', name, '--level', 'analytics');

    it('a minted token is revoked by its id and its name', async () => {
      const { id } = await mint('Nightly report');
      expect(await json('token', 'revoke', 'Nightly report')).to.include({ id });
      const other = await mint('Nightly report');
      expect(await json('token', 'revoke', other.id)).to.include({ id: other.id });
    });

    it('a name of several minted tokens revokes none', async () => {
      const tokens = [await mint('Same'), await mint('Same')];
      const { error, error_description: text } = await refusal('token', 'revoke', 'Same');
      expect(error).to.equal('ambiguous_name');
      for (const { id, token } of tokens) {
        expect(text)
          .to.include(id)
          .and.include(`ends in …${token.slice(-4)}`);
        expect(text).to.not.include(token);
      }
      const { items } = await json('token', 'list');
      expect(items.map(({ id }: { id: string }) => id)).to.include.members(
        tokens.map(({ id }) => id),
      );
    });
  });

  it('the filters of grant list accept names, and ids whose record is gone', async () => {
    const filters = [
      ['--connector', (await makeConnector('Filter')).name],
      ['--account', (await makeAccount('filter', { email: 'filter@example.com' })).email ?? ''],
      ['--client', 'desk-app-that-registered'],
      ...Object.entries(UNKNOWN).map(([kind, id]) => [`--${kind}`, id]),
    ];
    await makeClient('desk-app-that-registered', 'Desk');
    filters.push(['--client', 'Desk']);
    for (const filter of filters)
      expect(await json('grant', 'list', ...filter), filter.join(' ')).to.deep.equal({ items: [] });
    for (const kind of Object.keys(UNKNOWN)) {
      const { error } = await refusal('grant', 'list', `--${kind}`, 'nobody');
      expect(error, kind).to.equal('not_found');
    }
  });
});
