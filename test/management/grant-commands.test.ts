import { expect } from 'chai';
import type { GrantRecord } from '../../src/connections/grant-record.ts';
import { listGrant } from '../support/list-grant.ts';
import { addGrant, endGrant } from '../../src/connections/grants.ts';
import { createConnector } from '../../src/links/connectors.ts';
import { clientKey, documentKey } from '../../src/clients/clients.ts';
import { gatehouse, accessTo } from './command-line.ts';
import { LIFETIMES, type ManagementHost, openManagementHost } from './management-host.ts';

const NOW = Math.floor(Date.now() / 1000);
const CLIENT = 'a-client-that-registered-itself';
const ACCOUNT = 'the-account-of-one-person-1';
const GRANT = 'the-grant-of-one-person-12345678';

describe('the commands for grants and clients', () => {
  let host: ManagementHost;
  let connector: string;
  beforeEach(async () => {
    host = await openManagementHost();
    ({ id: connector } = await createConnector(host.store, { name: 'Ops', level: 'admin' }, NOW));
  });
  afterEach(() => host.close());

  /** Stores a grant as approval, code exchange and registration do. */
  async function makeGrant(clientName = 'An app', clientId = CLIENT): Promise<void> {
    const { store } = host;
    const owners = { account: ACCOUNT, client: clientId, connector };
    const exp = NOW + 90 * 86_400;
    const scope = 'analytics offline_access';
    const grant: GrantRecord['grant'] = {
      accountId: ACCOUNT,
      clientId,
      exp,
      openid: { scope },
    };
    await listGrant(store, GRANT, owners, { lifetime: 90 * 86_400, now: NOW });
    const client = { name: clientName, redirectHost: 'app.example.com' };
    await addGrant(store, GRANT, { connector, client, grant }, LIFETIMES, NOW);
    await store.update<GrantRecord>(`grant:${GRANT}`, (record) => {
      if (!record) throw new Error('it was just made');
      const refresh = { payload: { iat: NOW }, generation: 0, turns: [] };
      return { value: { ...record, refresh }, ttl: 3600 };
    });
    const person = { issuer: 'https://idp.example', subject: 's', name: 'Ada', groups: [] };
    const account = { id: ACCOUNT, ...person, emailVerified: false, signedInAt: NOW };
    await store.set(`account:${ACCOUNT}`, account, 3600);
    const metadata = { client_name: clientName, redirect_uris: ['https://app.example.com/cb'] };
    await store.set(clientKey(CLIENT), { metadata, usedAt: NOW }, 3600);
  }

  const run = (...args: string[]) => gatehouse(args, accessTo(host));

  async function done(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await run(...args);
    expect([code, stderr]).to.deep.equal([0, '']);
    return stdout;
  }

  const time = `${new Date(NOW * 1000).toISOString().slice(0, 16).replace('T', ' ')} UTC`;

  it('the list of grants is a table with one line for each grant', async () => {
    await makeGrant();
    const [headings, line, ...others] = (await done('grant', 'list')).trimEnd().split('\n');
    expect(headings?.split(/ {2,}/)).to.deep.equal([
      'ID',
      'CLIENT',
      'PERSON',
      'CONNECTOR',
      'LEVEL',
      'SINCE',
      'LAST USED',
      'STATE',
    ]);
    expect(line?.split(/ {2,}/)).to.deep.equal([
      GRANT,
      'An app',
      'Ada',
      'Ops',
      'analytics',
      time,
      time,
      'active',
    ]);
    expect(others).to.deep.equal([]);
    const filters = ['--connector', connector, '--account', ACCOUNT, '--client', CLIENT];
    expect(await done('grant', 'list', ...filters, '--state', 'active')).to.include(GRANT);
    const names = ['--connector', 'Ops', '--client', 'An app'];
    expect(await done('grant', 'list', ...names)).to.include(GRANT);
    await createConnector(host.store, { name: 'Other', level: 'admin' }, NOW);
    expect(await done('grant', 'list', '--connector', 'Other')).to.include('no grants');
    expect(await done('grant', 'list', ...filters, '--state', 'ended')).to.include('no grants');
  });

  it('grant show prints the details of a grant', async () => {
    await makeGrant();
    const text = await done('grant', 'show', GRANT);
    for (const fact of [
      GRANT,
      'active',
      CLIENT,
      'app.example.com',
      'Ada',
      'Ops',
      'analytics',
      'expires if unused',
    ])
      expect(text).to.include(fact);
  });

  it('grant why explains the state in words, and as JSON with the code', async () => {
    await makeGrant();
    expect(await done('grant', 'why', GRANT)).to.equal('"An app" of Ada is connected.\n');
    await endGrant(host.store, GRANT, 'refresh_replay', NOW);
    expect(await done('grant', 'why', GRANT)).to.equal(
      `"An app" of Ada was disconnected on ${time}.
An old key for this connection (refresh token) was used again. Either the app has a bug, or someone copied the key. The connection was ended, so no copy of its key works. Other connections have their own keys. (refresh_replay)
`,
    );
    expect(JSON.parse(await done('grant', 'why', GRANT, '--json'))).to.include({
      state: 'ended',
      reason: 'refresh_replay',
      account: ACCOUNT,
      clientId: CLIENT,
      connector,
    });
  });

  it('grant revoke ends a grant, and grant why names the reason', async () => {
    await makeGrant();
    expect(await done('grant', 'revoke', GRANT)).to.include('(revoked_by_administrator)');
  });

  it('a client is listed, shown, revoked and allowed again', async () => {
    await makeGrant();
    const [, line] = (await done('client', 'list')).split('\n');
    expect(line?.split(/ {2,}/)).to.deep.equal([
      CLIENT,
      'An app',
      'self-registered',
      time,
      'allowed',
      'app.example.com',
    ]);
    expect(await done('client', 'show', CLIENT)).to.include('https://app.example.com/cb');
    expect(await done('client', 'revoke', CLIENT)).to.include(
      `Revoked An app (${CLIENT}) and ended 1 grant. `,
    );
    expect(await done('client', 'show', CLIENT)).to.match(/revoked +since 20/);
    expect(await done('client', 'allow', CLIENT))
      .to.include('Allowed An app')
      .and.include('app.example.com');
  });

  it('a suggested command quotes the client id for the shell', async () => {
    const id = `https://app.example.com/a';touch\${IFS}x;$(id)|"\`id\``;
    await makeGrant('An app', id);
    const quoted = `'https://app.example.com/a'\\'';touch\${IFS}x;$(id)|"\`id\`'`;
    expect(await done('grant', 'revoke', GRANT)).to.include(`gatehouse client revoke ${quoted}\n`);
    await host.store.set(documentKey(id), { document: { client_name: 'An app' } }, 3600);
    expect(await done('client', 'revoke', id)).to.include(`gatehouse client allow ${quoted}\n`);
  });

  it('the name of a client cannot move the cursor of the terminal', async () => {
    const UNSEEN = ['\u001B', '\u009B', '\u202E', '\u2028'];
    const name = `${UNSEEN.join('2J')}nice app\n`;
    await makeGrant(name);
    const commands = [
      ['grant', 'list'],
      ['grant', 'show', GRANT],
      ['grant', 'why', GRANT],
      ['client', 'list'],
      ['client', 'show', CLIENT],
    ];
    for (const args of [...commands, ...commands.map((words) => [...words, '--json'])]) {
      const text = await done(...args);
      for (const unseen of UNSEEN) expect(text, args.join(' ')).to.not.include(unseen);
      expect(text, args.join(' ')).to.include('nice');
    }
    const { clientName } = JSON.parse(await done('grant', 'show', GRANT, '--json'));
    expect(clientName).to.equal(name);
  });
});
