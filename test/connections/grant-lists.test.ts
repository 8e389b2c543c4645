import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { grantLifetimes } from '../../src/connections/grant-lifetime.ts';
import {
  connectedClients,
  findListed,
  type ListedGrant,
  listedGrants,
  type Owner,
} from '../../src/connections/grant-lists.ts';
import { endGrant } from '../../src/connections/grants.ts';
import type { Store } from '../../src/store/store.ts';
import { openBrowser } from '../support/browser.ts';
import { createConnector } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';
import { type ManagementHost, openManagementHost } from '../management/management-host.ts';
import { openSystemStore } from '../support/system-store.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { onEachStore, type System } from '../support/system.ts';
import { type TokenFamily, connectWithRefreshToken, times, rotate } from './token-family.ts';
import { listGrant } from '../support/list-grant.ts';

const DAY = 86_400;
const lifetime = 90 * DAY;
const lifetimes = grantLifetimes({ accessToken: 3600, refreshTokenIdle: 30 * DAY });

const seconds = () => Date.now() / 1000;

onEachStore('The lists of grants', (system) => {
  let store: Store;
  before(async () => {
    ({ store } = await openSystemStore(system()));
  });
  after(() => store.close());

  const ownersOf = ({ accessToken }: TokenFamily): Owner[] => {
    const { sub = '', client_id: client, connector } = decodeJwt(accessToken);
    return [
      { kind: 'account', id: sub },
      { kind: 'client', id: String(client) },
      { kind: 'connector', id: String(connector) },
    ];
  };
  const grantOf = ({ accessToken }: TokenFamily) => String(decodeJwt(accessToken).grant_id);
  const idsOf = async (owner: Owner, now = seconds()) =>
    (await allOf(store, owner, { lifetime, now })).map(({ id }) => id);

  it('an approved grant is listed under its account, its client and its connector', async () => {
    const family = await connectWithRefreshToken(system());
    for (const owner of ownersOf(family)) expect(await idsOf(owner)).to.include(grantOf(family));
    const clients = await connectedClients(store, { lifetime, now: seconds() });
    expect(clients).to.include(family.client.id);
  });

  it('concurrent approvals are each listed once', async () => {
    const connector = await createConnector(system());
    const families = await times(4, () => {
      const as = { browser: openBrowser(system().origins) };
      return connectWithRefreshToken(system(), { as }, connector);
    });
    const ids = await idsOf({ kind: 'connector', id: connector.id });
    expect(ids).to.have.members(families.map(grantOf));
    const later = await connectWithRefreshToken(system(), {}, connector);
    expect(await idsOf({ kind: 'connector', id: connector.id })).to.include(grantOf(later));
  });

  it('refreshes and calls do not write the lists', async () => {
    const family = await connectWithRefreshToken(system());
    const before = await storedLists(system());
    expect(before).to.not.deep.equal([]);
    const { accessToken } = await rotate(family, family.refreshToken);
    expect((await callTool(family.link, accessToken, 'club_overview')).status).to.equal(200);
    expect(await storedLists(system())).to.deep.equal(before);
  });

  it('a grant that is listed twice appears once', async () => {
    const owners = { account: 'a', client: 'c', connector: 'form' };
    const now = seconds();
    for (const at of [now, now + 1])
      await listGrant(store, 'grant-listed-twice', owners, { lifetime, now: at });
    expect(await idsOf({ kind: 'connector', id: 'form' })).to.have.length(1);
  });

  it('an entry without a grant is removed only after the grant should have been written', async () => {
    const owner: Owner = { kind: 'connector', id: 'crashed' };
    const now = seconds();
    const owners = { account: 'a', client: 'c', connector: 'crashed' };
    await listGrant(store, 'grant-that-was-not-written', owners, { lifetime, now });
    const find = async (at: number) => {
      const [listed] = await allOf(store, owner, { lifetime, now: at });
      if (listed) await findListed(store, [listed], { lifetimes, now: at });
      return listed;
    };
    expect(await find(now + 60)).to.not.equal(undefined);
    expect(await find(now + 130)).to.not.equal(undefined);
    expect(await find(now + 130)).to.equal(undefined);
  });

  it('an ended grant is listed with its tombstone', async () => {
    const family = await connectWithRefreshToken(system());
    const [owner] = ownersOf(family);
    if (!owner) throw new Error('a grant has an account');
    await endGrant(store, grantOf(family), 'disconnected', seconds());
    const listed = (await allOf(store, owner, { lifetime, now: seconds() })).find(
      ({ id }) => id === grantOf(family),
    );
    if (!listed) throw new Error('the grant is not listed');
    const [found] = await findListed(store, [listed], { lifetimes, now: seconds() });
    expect(found).to.deep.include({
      ended: 'disconnected',
      clientId: family.client.id,
      level: 'operations',
    });
  });

  it('the lists include grants of earlier quarters for as long as they are stored', async () => {
    const start = 90 * DAY * 250 - 1;
    const owner: Owner = { kind: 'account', id: 'quarters' };
    const owners = { account: 'quarters', client: 'c', connector: 'k' };
    await listGrant(store, 'grant-of-the-earlier-quarter', owners, { lifetime, now: start });
    await listGrant(store, 'grant-of-the-later-quarter', owners, { lifetime, now: start + 1 });
    for (const days of [0, 30, 89, 119])
      expect(await idsOf(owner, start + 1 + days * DAY)).to.deep.equal([
        'grant-of-the-earlier-quarter',
        'grant-of-the-later-quarter',
      ]);
  });
});

describe('The lists of grants after the lifetime was shortened', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
  });
  after(() => host.close());

  it('the lists include earlier grants until their longer lifetime is over', async () => {
    const owners = { account: 'a', client: 'c', connector: 'shorter' };
    const now = Math.floor(seconds());
    await listGrant(host.store, 'grant-of-ninety-days', owners, { lifetime, now });
    await listGrant(host.store, 'grant-of-one-day', owners, { lifetime: DAY, now });
    host.clock.ahead = 89 * DAY;
    const range = { lifetime: DAY, now: now + host.clock.ahead };
    const listed = await allOf(host.store, { kind: 'client', id: 'c' }, range);
    expect(listed.map(({ id }) => id)).to.include('grant-of-ninety-days');
    expect(await connectedClients(host.store, range)).to.deep.equal(['c']);
  });
});

async function allOf(...range: Parameters<typeof listedGrants>): Promise<ListedGrant[]> {
  return (await Array.fromAsync(listedGrants(...range))).flat();
}

async function storedLists({ storeAddress }: System) {
  const all = await readStoredBytes(storeAddress);
  return all.filter(({ name }) => /^(grants-of-|clients-connected)/.test(name));
}
