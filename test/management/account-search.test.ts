import { createSecretKey, randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { buildAccountIndex } from '../../src/people/account-index.ts';
import { allAccounts, saveAccount } from '../../src/people/accounts.ts';
import { createConnector } from '../../src/links/connectors.ts';
import { listGrant } from '../support/list-grant.ts';
import { addGrant } from '../../src/connections/grants.ts';
import {
  ACCOUNT_LIFETIME,
  LIFETIMES,
  type ManagementHost,
  openManagementHost,
  request,
} from './management-host.ts';

const KEY = createSecretKey(randomBytes(32));
const ACCOUNTS = '/api/v1/accounts';
/** More than one page reads. */
const OTHERS = 450;
/** So many people share a word of their names. */
const FREQUENT = 120;

describe('the search among many accounts', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
    const others = Array.from({ length: OTHERS }, (_, n) => signIn(`${n}`, 'Somebody Else'));
    await Promise.all(others);
  });
  after(() => host.close());

  const signIn = async (subject: string, name: string) => {
    const email = `${subject}@example.com`;
    const identity = { subject, name, email, emailVerified: true, groups: [] };
    const times = { now: host.now(), ttl: ACCOUNT_LIFETIME };
    const issuer = 'https://login.example.com';
    return (await saveAccount(host.store, KEY, { issuer, ...identity }, times)).id;
  };
  const change = (id: string, what: string) => request(host, 'POST', `${ACCOUNTS}/${id}/${what}`);
  type Found = { items: { id: string; name: string }[]; next?: string };
  const read = async (query: string): Promise<Found> =>
    (await request(host, 'GET', `${ACCOUNTS}?${query}`)).body as Found;
  const idsOf = ({ items }: Found) => items.map(({ id }) => id);
  const readAll = async (query: string, after?: string) => {
    const pages = [await read(after === undefined ? query : `${query}&after=${after}`)];
    for (let next = pages[0]?.next; next !== undefined; next = pages.at(-1)?.next)
      pages.push(await read(`${query}&after=${next}`));
    return pages.flatMap(idsOf);
  };

  it('the first page has the people with a word of that beginning, and all pages have each of them once', async () => {
    const id = await signIn('konrad.zusewitz', 'Dr. Konrad Zusewitz');
    for (const q of ['konra', 'ZUSEWITZ', 'konrad.zusewitz%40example', 'zusewitz+konrad'])
      expect(idsOf(await read(`q=${q}`)), q).to.deep.equal([id]);
    expect(await readAll('q=konrad')).to.deep.equal([id]);
    expect(await readAll('q=onrad.zusew')).to.deep.equal([id]);
    expect(await readAll('q=somebody&limit=100')).to.have.length(OTHERS);
    expect(new Set(await readAll('q=somebody&limit=100')).size).to.equal(OTHERS);
  });

  it('a list goes on in its order when another word becomes the rarer one', async () => {
    const many = (count: number, name: (n: number) => string) =>
      Promise.all(Array.from({ length: count }, (_, n) => signIn(name(n), name(n))));
    const wanted = await many(30, (n) => `Ping Pong ${n}`);
    await many(5, (n) => `Ping ${n}`);
    const first = await read('q=ping+pong&limit=10');
    await many(10, (n) => `Pong ${n}`);
    const found = [...idsOf(first), ...(await readAll('q=ping+pong&limit=10', first.next))];
    expect(found.toSorted()).to.deep.equal(wanted.toSorted());
  });

  it('a person is found by the new name only, and not after they were forgotten', async () => {
    const id = await signIn('renamed', 'Earlier Bernard');
    await signIn('renamed', 'Later Lovelace');
    expect(idsOf(await read('q=lovelace'))).to.deep.equal([id]);
    expect(await readAll('q=bernard')).to.deep.equal([]);
    await change(id, 'forget');
    expect(await readAll('q=lovelace')).to.deep.equal([]);
    for (const word of ['bern', 'love', 'rena'])
      expect(await host.store.members(`accounts-named:${word}`)).to.deep.equal([]);
  });

  it('the first page of disabled people has them until they are enabled, also with a search', async () => {
    const id = await signIn('disabled', 'Maurice Wilkes');
    await change(id, 'disable');
    expect(idsOf(await read('state=disabled'))).to.deep.equal([id]);
    expect(idsOf(await read('state=disabled&q=maurice'))).to.deep.equal([id]);
    expect(await readAll('state=disabled')).to.deep.equal([id]);
    await change(id, 'enable');
    expect(await readAll('state=disabled')).to.deep.equal([]);
  });

  it('people of an earlier version are found on later pages, and on the first one after the index is completed', async () => {
    const id = await signIn('earlier', 'Hedy Lamarr');
    await host.store.delete('accounts-named:lama');
    expect(await readAll('q=lamarr')).to.deep.equal([id]);
    expect(await buildAccountIndex(host.store, allAccounts(host.store))).to.equal(true);
    expect(idsOf(await read('q=lamarr'))).to.deep.equal([id]);
    expect(await buildAccountIndex(host.store, allAccounts(host.store))).to.equal(false);
  });

  it('a search of connections has those of the people with this name first, and each once', async () => {
    const { store, now } = host;
    const connect = async (account: string, n: number) => {
      const grantId = `grant-of-a-person-${n}`;
      const owners = { account, client: 'an-app-of-somebody', connector: connector.id };
      await listGrant(store, grantId, owners, { lifetime: 3600, now: now() + n });
      const grant = {
        accountId: account,
        clientId: owners.client,
        exp: now() + 3600,
        openid: { scope: 'analytics' },
      };
      const client = { name: 'An app', redirectHost: 'app.example.com' };
      await addGrant(store, grantId, { connector: connector.id, client, grant }, LIFETIMES, now());
    };
    const connector = await createConnector(store, { name: 'Many', level: 'admin' }, now());
    const others = await readAll('q=somebody&limit=300');
    for (const [n, account] of others.slice(0, 250).entries()) await connect(account, n);
    const id = await signIn('late', 'Barbara Liskov');
    for (const n of [250, 251, 252]) await connect(id, n);
    const page = async (query: string) =>
      (await request(host, 'GET', `/api/v1/grants?${query}`)).body as Found;
    const wanted = [250, 251, 252].map((n) => `grant-of-a-person-${n}`);
    expect(idsOf(await page('q=liskov+many'))).to.deep.equal(wanted);
    const found: string[] = [];
    for (let next: string | undefined = ''; next !== undefined;) {
      const after = next && `&after=${encodeURIComponent(next)}`;
      const each: Found = await page(`q=liskov&limit=2${after}`);
      found.push(...idsOf(each));
      next = each.next;
    }
    expect(found).to.deep.equal(wanted);
    const named = (name: (n: number) => string) =>
      Promise.all(Array.from({ length: FREQUENT }, (_, n) => signIn(name(n), name(n))));
    await named((n) => `Grace ${n}`);
    await named((n) => `${n} Hopper`);
    const renameLast = async (set: string, name: string, n: number) => {
      const [last = ''] = await store.page(set, { limit: 1, newestFirst: true });
      const { body } = await request(host, 'GET', `${ACCOUNTS}/${last}`);
      expect(await signIn((body as { name: string }).name, name)).to.equal(last);
      await connect(last, n);
      return `grant-of-a-person-${n}`;
    };
    const beginsAlike = await renameLast('accounts-named:hopp', 'Vera Hoppenstedt', 254);
    expect(idsOf(await page('q=hoppenstedt'))).to.deep.equal([beginsAlike]);
    // Last, because she is in both sets then.
    const grace = await renameLast('accounts-named:grac', 'Grace Hopper', 253);
    expect(idsOf(await page('q=grace+hopper'))).to.deep.equal([grace]);
  });

  it('an account that expired leaves the index', async () => {
    const id = await signIn('expired', 'Edsger Dijkstra');
    await host.store.delete(`account:${id}`);
    expect(await readAll('q=dijkstra')).to.deep.equal([]);
    expect(await host.store.members('accounts-named:dijk')).to.deep.equal([]);
  });
});
