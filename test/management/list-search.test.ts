import { createSecretKey, randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { saveAccount } from '../../src/people/accounts.ts';
import { addGrant } from '../../src/connections/grants.ts';
import { listGrant } from '../support/list-grant.ts';
import { clientKey } from '../../src/clients/clients.ts';
import { createConnector } from '../../src/links/connectors.ts';
import { accessTo, gatehouse } from './command-line.ts';
import {
  ACCOUNT_LIFETIME,
  LIFETIMES,
  type ManagementHost,
  openManagementHost,
  request,
} from './management-host.ts';

const KEY = createSecretKey(randomBytes(32));
const NOUNS = ['connector', 'token', 'account', 'grant', 'client'];

describe('the option --search of the list commands', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
    for (const name of ['Front desk', 'Back office']) await fill(name);
  });
  after(() => host.close());

  const run = (...args: string[]) => gatehouse(args, accessTo(host));

  /** Stores one record of each kind with this name. */
  async function fill(name: string): Promise<void> {
    const { store } = host;
    const now = host.now();
    const client = name.toLowerCase().replace(' ', '-').repeat(3);
    const identity = { subject: name, name, groups: [], emailVerified: true };
    const issuer = 'https://login.example.com';
    const times = { now, ttl: ACCOUNT_LIFETIME };
    const { id: accountId } = await saveAccount(store, KEY, { issuer, ...identity }, times);
    const { id: connector } = await createConnector(store, { name, level: 'admin' }, now);
    await request(host, 'POST', '/api/v1/tokens', { body: { name, level: 'analytics' } });
    const metadata = { client_name: name, redirect_uris: ['https://app.example.com/cb'] };
    await store.set(clientKey(client), { metadata, usedAt: now }, 3600);
    const grantId = client.slice(0, 30);
    const owners = { account: accountId, client, connector };
    await listGrant(store, grantId, owners, { lifetime: 3600, now });
    const grant = { accountId, clientId: client, exp: now + 3600, openid: { scope: 'analytics' } };
    const shown = { name, redirectHost: 'app.example.com' };
    await addGrant(store, grantId, { connector, client: shown, grant }, LIFETIMES, now);
  }

  for (const noun of NOUNS)
    it(`${noun} list --search prints the records with all of its words, and says if there are none`, async () => {
      const all = await run(noun, 'list');
      expect(all.stdout).to.include('Front desk').and.include('Back office');
      const found = await run(noun, 'list', '--search', 'DESK front');
      expect([found.code, found.stderr]).to.deep.equal([0, '']);
      expect(found.stdout).to.include('Front desk').and.not.include('Back office');
      const none = await run(noun, 'list', '--search', 'desk office');
      expect(none.stdout).to.equal('Nothing matches the search.\n');
      const json = await run(noun, 'list', '--search', 'desk office', '--json');
      expect(JSON.parse(json.stdout)).to.deep.equal({ items: [] });
      expect((await run(noun, 'list', '--help')).stdout).to.include('--search <words>');
    });
});

describe('the list of connections of many people and connectors', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
  });
  after(() => host.close());

  async function connect(name: string, connector: string, count: number) {
    const { store } = host;
    const now = host.now();
    const identity = { subject: name, name, groups: [], emailVerified: true };
    const issuer = 'https://login.example.com';
    const times = { now, ttl: ACCOUNT_LIFETIME };
    const { id: account } = await saveAccount(store, KEY, { issuer, ...identity }, times);
    const client = 'client-of-everybody';
    const shown = { name: 'App', redirectHost: 'app.example.com' };
    const grants: string[] = [];
    for (let n = 0; n < count; n += 1) {
      const id = `${name.replace(' ', '-')}-connection-${String(n).padStart(3, '0')}`;
      await listGrant(store, id, { account, client, connector }, { lifetime: 3600, now });
      const openid = { scope: 'analytics' };
      const grant = { accountId: account, clientId: client, exp: now + 3600, openid };
      await addGrant(store, id, { connector, client: shown, grant }, LIFETIMES, now);
      grants.push(id);
    }
    return { account, grants };
  }

  it('lists each connection once, one person after the other, also of a person with many', async () => {
    const { id } = await createConnector(host.store, { name: 'Ops', level: 'admin' }, host.now());
    const people: Awaited<ReturnType<typeof connect>>[] = [];
    for (let n = 0; n < 25; n += 1)
      people.push(await connect(`Wanted ${n}`, id, n % 10 === 3 ? 55 : n % 3));
    await connect('Somebody Else', id, 3);
    const inOrder = people.toSorted((one, other) => (one.account < other.account ? -1 : 1));
    for (const limit of [7, 100]) {
      const found: { id: string; account: string }[] = [];
      for (let after: string | undefined = ''; after !== undefined;) {
        const query = new URLSearchParams({ q: 'wanted', limit: String(limit) });
        if (after !== '') query.set('after', after);
        const { body } = await request(host, 'GET', `/api/v1/grants?${query}`);
        const { items, next } = body as { items: typeof found; next?: string };
        found.push(...items);
        after = next;
      }
      const accounts = inOrder.flatMap(({ account, grants }) => grants.map(() => account));
      expect(found.map((each) => each.account)).to.deep.equal(accounts);
      expect(found.map((each) => each.id)).to.have.members(inOrder.flatMap(({ grants }) => grants));
    }
  });

  it('lists each connection once, one connector after the other, also of a connector with many', async () => {
    const connectors: string[] = [];
    const wanted: string[] = [];
    for (let n = 0; n < 45; n += 1) {
      const { id } = await createConnector(host.store, { name: 'Few', level: 'admin' }, host.now());
      connectors.push(id);
      const count = n === 23 ? 55 : n % 4 === 0 ? 2 : 0;
      wanted.push(...(await connect(`Member ${n}`, id, count)).grants);
    }
    for (const limit of [7, 100]) {
      const found: { id: string; connector: string }[] = [];
      for (let after: string | undefined = ''; after !== undefined;) {
        const query = new URLSearchParams({ limit: String(limit), ...(after ? { after } : {}) });
        const { body } = await request(host, 'GET', `/api/v1/grants?${query}`);
        const { items, next } = body as { items: typeof found; next?: string };
        found.push(...items);
        after = next;
      }
      const few = found.filter(({ connector }) => connectors.includes(connector));
      expect(few.map(({ id }) => id).toSorted()).to.deep.equal(wanted.toSorted());
      const runs = few.filter(({ connector }, n) => few[n - 1]?.connector !== connector);
      expect(runs).to.have.length(new Set(few.map(({ connector }) => connector)).size);
    }
  });
});
