import { expect } from 'chai';
import { findConnector, commitUses, acquireUse } from '../../src/links/connectors.ts';
import type { Connector } from '../../src/management/resources/connector.ts';
import {
  type ManagementHost,
  openManagementHost,
  request,
  RESOURCE_URL,
} from './management-host.ts';

const CONNECTORS = '/api/v1/connectors';

describe('connectors over the management API', () => {
  let host: ManagementHost;
  beforeEach(async () => {
    host = await openManagementHost();
  });
  afterEach(() => host.close());

  async function create(body: object): Promise<Connector> {
    const answer = await request(host, 'POST', CONNECTORS, { body });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
    return answer.body as Connector;
  }

  it('a new connector has a link and a state but no optional member that was not sent', async () => {
    const connector = await create({ name: 'Ops', level: 'operations' });
    expect(connector.id).to.match(/^[A-Za-z0-9]{22}$/);
    expect(connector.createdAt).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/);
    expect(Date.parse(connector.createdAt) / 1000).to.equal(host.now());
    expect(connector).to.deep.equal({
      id: connector.id,
      name: 'Ops',
      level: 'operations',
      link: `${RESOURCE_URL}/connect/${connector.id}/mcp`,
      state: 'active',
      createdAt: connector.createdAt,
      uses: 0,
    });
    expect(await findConnector(host.store, connector.id)).to.include({ name: 'Ops' });
  });

  it('the response to a creation has a Location and is not cached', async () => {
    const { headers, body } = await request(host, 'POST', CONNECTORS, {
      body: { name: 'Ops', level: 'full' },
    });
    expect(headers.get('location')).to.equal(`${CONNECTORS}/${String(body['id'])}`);
    expect(headers.get('cache-control')).to.equal('no-store');
    expect((await request(host, 'GET', headers.get('location') ?? '')).body).to.deep.equal(body);
  });

  it('`maxUses` and `expiresIn` are stored', async () => {
    const { createdAt, expiresAt, maxUses } = await create({
      name: 'Ops',
      level: 'admin',
      maxUses: 5,
      expiresIn: '30d',
    });
    expect(maxUses).to.equal(5);
    expect(Date.parse(expiresAt ?? '') - Date.parse(createdAt)).to.equal(30 * 86_400_000);
  });

  it('the suggested level of a connector is stored and returned', async () => {
    const wanted = { name: 'Ops', level: 'admin', suggestedLevel: 'analytics' };
    const { id, suggestedLevel } = await create(wanted);
    expect(suggestedLevel).to.equal('analytics');
    expect((await request(host, 'GET', `${CONNECTORS}/${id}`)).body).to.include(wanted);
    const { body } = await request(host, 'POST', CONNECTORS, {
      body: { name: 'Ops', level: 'admin' },
    });
    expect(body).to.not.have.property('suggestedLevel');
  });

  it('the audience of a connector is stored in lower case, without duplicates, with the provider of each group', async () => {
    const audience = [
      { email: 'Ada@Example.com' },
      { email: 'ada@example.com' },
      { emailDomain: 'EXAMPLE.org' },
      { group: 'Analysts' },
      { group: 'Analysts', provider: 'development' },
      { group: 'analysts' },
    ];
    const created = await create({ name: 'Ops', level: 'admin', audience });
    const stored = [
      { email: 'ada@example.com' },
      { emailDomain: 'example.org' },
      { group: 'Analysts', provider: 'development' },
      { group: 'analysts', provider: 'development' },
    ];
    expect(created.audience).to.deep.equal(stored);
    const { body } = await request(host, 'GET', `${CONNECTORS}/${created.id}`);
    expect(body['audience']).to.deep.equal(stored);
    expect((await findConnector(host.store, created.id))?.audience).to.deep.equal(stored);
  });

  it('`expiresAt` accepts any time zone', async () => {
    const wanted = { name: 'Ops', level: 'admin', expiresAt: '2999-12-31T23:30:00+02:00' };
    expect((await create(wanted)).expiresAt).to.equal('2999-12-31T21:30:00.000Z');
  });

  it('a name in any script is stored trimmed', async () => {
    const { name } = await create({ name: '  Büro Zürich 事務所 👩‍💻 ', level: 'analytics' });
    expect(name).to.equal('Büro Zürich 事務所 👩‍💻');
  });

  it('the state becomes expired when the time has passed', async () => {
    const { id } = await create({ name: 'Ops', level: 'admin', expiresIn: '1h' });
    host.clock.ahead = 3601;
    expect((await request(host, 'GET', `${CONNECTORS}/${id}`)).body['state']).to.equal('expired');
  });

  it('uses are counted, and the last one makes the connector used up', async () => {
    const { id } = await create({ name: 'Ops', level: 'admin', maxUses: 1 });
    const now = Math.floor(Date.now() / 1000);
    const use = { grantId: 'g', holder: 'ada client', reservedUntil: now + 60 };
    expect(
      await acquireUse(host.store, id, use, {
        now,
        isActive: async () => true,
      }),
    ).to.equal(true);
    await commitUses(host.store, id, [use]);
    const { body } = await request(host, 'GET', `${CONNECTORS}/${id}`);
    expect(body).to.include({ state: 'used-up', uses: 1, maxUses: 1 });
  });

  it('revoking returns the revoked connector and is idempotent', async () => {
    const connector = await create({ name: 'Ops', level: 'admin' });
    const path = `${CONNECTORS}/${connector.id}`;
    for (const _ of [1, 2]) {
      const { status, body } = await request(host, 'DELETE', path);
      expect(status).to.equal(200);
      expect(body).to.deep.equal({ ...connector, state: 'revoked' });
    }
    expect((await request(host, 'GET', path)).body['state']).to.equal('revoked');
  });

  it('revoking is published to every process', async () => {
    const { id } = await create({ name: 'Ops', level: 'admin' });
    const published = new Promise((resolve) => {
      void host.store.subscribe('connectors', resolve);
    });
    await request(host, 'DELETE', `${CONNECTORS}/${id}`);
    expect(await published).to.equal(id);
  });

  it('twenty connectors created concurrently are listed once each', async () => {
    const names = Array.from({ length: 20 }, (_, index) => `Connector ${index}`);
    const created = await Promise.all(names.map((name) => create({ name, level: 'analytics' })));
    const { body } = await request(host, 'GET', CONNECTORS);
    expect(body['items']).to.have.deep.members(created);
    expect(body).not.to.have.property('next');
  });

  it('the pages contain every connector once, oldest first, including revoked ones', async () => {
    const created: Connector[] = [];
    for (const name of ['A', 'B', 'C', 'D', 'E']) {
      created.push(await create({ name, level: 'analytics' }));
      host.clock.ahead += 1;
    }
    await request(host, 'DELETE', `${CONNECTORS}/${created[1]?.id}`);
    const first = await request(host, 'GET', `${CONNECTORS}?limit=2`);
    const second = await request(host, 'GET', `${CONNECTORS}?limit=2&after=${first.body['next']}`);
    const third = await request(host, 'GET', `${CONNECTORS}?limit=2&after=${second.body['next']}`);
    const pages = [first, second, third].map(({ body }) => body['items'] as Connector[]);
    expect(pages.map((items) => items.map(({ name }) => name).join(''))).to.deep.equal([
      'AB',
      'CD',
      'E',
    ]);
    expect(pages[0]?.[1]?.state).to.equal('revoked');
    expect(third.body).not.to.have.property('next');
  });

  it('paging continues after the connector of the cursor was deleted', async () => {
    const created: Connector[] = [];
    for (const name of ['A', 'B', 'C']) {
      created.push(await create({ name, level: 'analytics' }));
      host.clock.ahead += 1;
    }
    const first = await request(host, 'GET', `${CONNECTORS}?limit=2`);
    await request(host, 'DELETE', `${CONNECTORS}/${created[1]?.id}`);
    await request(host, 'POST', `${CONNECTORS}/${created[1]?.id}/delete`);
    const second = await request(host, 'GET', `${CONNECTORS}?limit=2&after=${first.body['next']}`);
    expect([second.status, second.body['items']]).to.deep.equal([200, created.slice(2)]);
  });

  it('a page that ends with the last item has no `next`', async () => {
    await create({ name: 'A', level: 'analytics' });
    await create({ name: 'B', level: 'analytics' });
    expect((await request(host, 'GET', `${CONNECTORS}?limit=2`)).body).not.to.have.property('next');
  });
});
