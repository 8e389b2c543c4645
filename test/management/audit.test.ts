import { expect } from 'chai';
import { type AuditItem, recordAudit } from '../../src/audit/audit.ts';
import { allItems } from '../../src/management/api/all-items.ts';
import { managementClient } from '../../src/management/api/client.ts';
import { auditEvents } from '../../src/observability/labels.ts';
import { auditServices } from '../support/audit-services.ts';
import { KEY, type ManagementHost, openManagementHost, request } from './management-host.ts';

const AUDIT = '/api/v1/audit';

describe('the audit log over the management API', () => {
  let host: ManagementHost;
  beforeEach(async () => {
    host = await openManagementHost();
  });
  afterEach(() => host.close());

  async function read(query = ''): Promise<{ items: AuditItem[]; next?: string }> {
    const { status, body } = await request(host, 'GET', `${AUDIT}${query}`);
    expect(status, JSON.stringify(body)).to.equal(200);
    return body as { items: AuditItem[]; next?: string };
  }

  const record = (event: string, time: string) =>
    recordAudit(auditServices(host.store, Date.parse(time) / 1000), { event, outcome: 'done' });

  it('the audit log is empty before the first event', async () => {
    expect(await read()).to.deep.equal({ items: [] });
  });

  it('ADM-06 the audit log records a creation and a revocation once each', async () => {
    const body = { name: 'Ops', level: 'operations' };
    const { body: created } = await request(host, 'POST', '/api/v1/connectors', { body });
    const path = `/api/v1/connectors/${String(created['id'])}`;
    await request(host, 'DELETE', path);
    await request(host, 'DELETE', path);
    const { items } = await read();
    const managed = { connector: created['id'], outcome: 'done' };
    expect(items).to.have.length(2);
    expect(items[0]).to.deep.include({ event: 'connector_revoked', ...managed });
    expect(items[1]).to.deep.include({ event: 'connector_created', ...managed });
    for (const item of items) expect(item.arguments).to.deep.equal(body);
    expect(items[1]?.time).to.equal(created['createdAt']);
  });

  it('a refused request is not recorded', async () => {
    await request(host, 'POST', '/api/v1/connectors', { body: { name: 'Ops', level: 'root' } });
    await request(host, 'DELETE', '/api/v1/connectors/AAAAAAAAAAAAAAAAAAAAAA');
    expect(await read()).to.deep.equal({ items: [] });
  });

  it('the API returns items as they were recorded, with their numbers, and `allowed` as `answered`', async () => {
    const item = {
      event: 'call',
      account: 'ada',
      clientId: 'https://client.example/metadata',
      connector: 'AAAAAAAAAAAAAAAAAAAAAA',
      grantId: 'g',
      tool: 'payment_details',
      arguments: { member: 7 },
      outcome: 'allowed',
    };
    // Calls that earlier versions recorded have `arguments`.
    const { arguments: _, ...later } = { ...item, argumentsJson: '{"member":7}' };
    const time = '2030-03-17T17:46:40.000Z';
    for (const each of [item, later])
      await recordAudit(auditServices(host.store, 1_900_000_000), each);
    const { items } = await read();
    expect(items.map(({ number }) => number)).to.deep.equal([2, 1]);
    const stored = items.map(({ id: _id, epoch: _epoch, number: _number, ...rest }) => rest);
    const outcome = 'answered';
    expect(stored).to.deep.equal([
      { time, ...later, outcome },
      { time, ...item, outcome },
    ]);
  });

  it('the pages contain every item once, with and without `since`', async () => {
    for (let minute = 10; minute < 17; minute++) {
      await record(`event_${minute}`, `2030-01-01T00:${minute}:00Z`);
    }
    const events = ({ items }: { items: AuditItem[] }) => items.map(({ event }) => event.slice(6));
    const since = encodeURIComponent('2030-01-01T01:12:00+01:00');
    const query = `?order=oldest&limit=2&since=${since}`;
    const first = await read(query);
    const second = await read(`${query}&after=${first.next}`);
    const third = await read(`${query}&after=${second.next}`);
    expect(events(first)).to.deep.equal(['12', '13']);
    expect(events(second)).to.deep.equal(['14', '15']);
    expect(events(third)).to.deep.equal(['16']);
    expect(third).not.to.have.property('next');
  });

  it('recent items are found after more old items than one read covers', async () => {
    for (let index = 0; index < 501; index++) await record('old', '2030-01-01T00:00:00Z');
    await record('recent', '2030-01-02T00:00:00Z');
    const { items } = await read('?order=oldest&since=2030-01-01T12:00:00Z&limit=1');
    expect(items.map(({ event }) => event)).to.deep.equal(['recent']);
  });

  it('recent items are on the first page although many items are older than `since`', async () => {
    const old = Array.from({ length: 1001 }, () => record('old', '2030-01-01T00:00:00Z'));
    await Promise.all(old);
    for (const event of ['recent', 'newest']) await record(event, '2030-01-02T00:00:00Z');
    const since = '2030-01-01T12:00:00Z';
    const first = await read(`?order=oldest&since=${since}`);
    expect(first.items.map(({ event }) => event)).to.deep.equal(['recent', 'newest']);
    expect(first).not.to.have.property('next');
    const newest = [];
    const client = managementClient({ url: host.url, key: KEY });
    const list = (page: object) => client.listAudit({ query: { since, order: 'oldest', ...page } });
    for await (const { event } of allItems(list)) newest.push(event);
    expect(newest).to.deep.equal(['recent', 'newest']);
  });

  it('the list has the newest first, and stops at `since`', async () => {
    const readBack = (wanted: Record<string, string | undefined>) =>
      read(`?${new URLSearchParams({ limit: '2', ...wanted })}`);
    for (let index = 0; index < 1001; index++) await record('old', '2030-01-01T00:00:00Z');
    for (const event of ['client_allowed', 'client_revoked', 'consent_denied'])
      await record(event, '2030-01-02T00:00:00Z');
    await record('of a slow clock', '2030-01-01T23:59:50Z');
    await record('signed_in', '2030-01-02T00:00:00Z');
    const since = '2030-01-02T00:00:00Z';
    const names = ({ items }: { items: AuditItem[] }) => items.map(({ event }) => event);
    const page = await readBack({ since });
    expect(names(page)).to.deep.equal(['signed_in', 'consent_denied']);
    const last = await readBack({ since, after: page.next, limit: '50' });
    expect(names(last)).to.deep.equal(['client_revoked', 'client_allowed']);
    expect(last).to.not.have.property('next');
    const found = await readBack({ event: 'client_allowed' });
    expect(names(found)).to.deep.equal(['client_allowed']);
    expect(found).to.not.have.property('next');
  });

  it('`event` filters the items', async () => {
    for (const event of ['client_allowed', 'client_revoked', 'client_allowed'])
      await record(event, '2030-01-01T00:00:00Z');
    expect((await read('?event=client_allowed')).items.map(({ event }) => event)).to.deep.equal([
      'client_allowed',
      'client_allowed',
    ]);
    expect((await read('?event=code_replay')).items).to.deep.equal([]);
  });

  it('`account`, `client` and `grant` list only the items about that record', async () => {
    const about = { account: 'ada', clientId: 'https://client.example/metadata', grantId: 'g' };
    const services = auditServices(host.store, Date.parse('2030-01-01T00:00:00Z') / 1000);
    await recordAudit(services, { event: 'signed_in', outcome: 'done', ...about });
    await recordAudit(services, { event: 'signed_in', outcome: 'done', account: 'grace' });
    for (const [name, value] of [
      ['account', about.account],
      ['client', about.clientId],
      ['grant', about.grantId],
    ] as const) {
      const { items } = await read(`?${new URLSearchParams({ [name]: value })}`);
      expect(items, name).to.have.length(1);
      expect(items[0]).to.include(about);
      const { items: others } = await read(`?${name}=other`);
      expect(others, name).to.deep.equal([]);
    }
  });

  it('an unknown event is refused with the names of all events', async () => {
    for (const event of ['', 'no event', 'sign_in', 'SIGNED_IN']) {
      const query = new URLSearchParams({ event });
      const { status, body } = await request(host, 'GET', `${AUDIT}?${query}`);
      expect({ status, body }, event).to.deep.equal({
        status: 400,
        body: {
          error: 'invalid_request',
          error_description: `event: one of ${auditEvents.join(', ')}`,
        },
      });
    }
  });

  it('a full last page has no `next`', async () => {
    for (const event of ['first', 'second']) await record(event, '2030-01-01T00:00:00Z');
    const page = await read('?limit=2');
    expect(page.items).to.have.length(2);
    expect(page).not.to.have.property('next');
  });

  it('an invalid time is refused with an example of a valid one', async () => {
    for (const since of ['yesterday', '24h', '2030-13-01T00:00:00Z', '2030-01-31', '', '0']) {
      const { status, body } = await request(host, 'GET', `${AUDIT}?since=${since}`);
      expect(status, since).to.equal(400);
      expect(body['error_description']).to.equal('since: a time such as 2030-01-31T12:00:00Z');
    }
  });
});
