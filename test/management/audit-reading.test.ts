import { expect } from 'chai';
import { type AuditItem, recordAudit, storeAudit } from '../../src/audit/audit.ts';
import { auditServices } from '../support/audit-services.ts';
import { accessTo, gatehouse } from './command-line.ts';
import { KEYS, type ManagementHost, openManagementHost, request } from './management-host.ts';

const NOW = 1_900_000_000;

describe('reading the audit log', () => {
  let host: ManagementHost;
  beforeEach(async () => {
    host = await openManagementHost();
  });
  afterEach(() => host.close());

  const record = (item: Partial<AuditItem>, ahead = 0) =>
    recordAudit(auditServices(host.store, NOW + ahead), {
      event: 'call',
      outcome: 'answered',
      ...item,
    });
  const read = async (query: object, role: keyof typeof KEYS = 'administrator') => {
    const path = `/api/v1/audit?${new URLSearchParams({ ...query })}`;
    const headers = { Authorization: `Bearer ${KEYS[role]}` };
    const { status, body } = await request(host, 'GET', path, { headers });
    expect(status, JSON.stringify(body)).to.equal(200);
    return body as { items: AuditItem[]; next?: string; searched?: number; names?: object };
  };
  const traces = ({ items }: { items: AuditItem[] }) => items.map(({ traceId }) => traceId);

  it('each filter lists only what has its value, alone and together with others', async () => {
    const one = { account: 'a'.repeat(27), clientId: 'app', connector: 'C', grantId: 'g' };
    const calls: [string, Partial<AuditItem>][] = [
      ['1', { ...one, tool: 'export_cards' }],
      ['2', { ...one, account: 'machine:m', method: 'resources/read' }],
      ['3', { ...one, clientId: 'other', tool: 'export_cards', outcome: 'refused' }],
      ['4', { ...one, connector: 'D', grantId: 'h', event: 'grant_ended', outcome: 'done' }],
    ];
    for (const [traceId, item] of calls) await record({ ...item, traceId }, Number(traceId));
    const at = (ahead: number) => new Date((NOW + ahead) * 1000).toISOString();
    const found: [object, string[]][] = [
      [{ account: one.account }, ['4', '3', '1']],
      [{ account: 'machine:m' }, ['2']],
      [{ client: 'app' }, ['4', '2', '1']],
      [{ connector: 'C' }, ['3', '2', '1']],
      [{ grant: 'h' }, ['4']],
      [{ tool: 'export_cards' }, ['3', '1']],
      [{ tool: 'resources/read' }, ['2']],
      [{ event: 'grant_ended' }, ['4']],
      [{ outcome: 'refused' }, ['3']],
      [{ since: at(2), until: at(4) }, ['3', '2']],
      [{ client: 'app', tool: 'export_cards', outcome: 'answered' }, ['1']],
    ];
    for (const [query, expected] of found)
      expect(traces(await read(query)), JSON.stringify(query)).to.deep.equal(expected);
  });

  it('a call and how it ended are one item, which is found by how it ended', async () => {
    const started = await record({ tool: 'export_cards', outcome: 'started' });
    const end = { event: 'call_ended', call: started.id, outcome: 'failed', ms: 12 };
    const item = { id: 'end', time: started.time, ...end };
    const completes = started;
    await storeAudit(auditServices(host.store, NOW), [{ item, part: 'lasting', completes }]);
    const { items } = await read({ outcome: 'failed' });
    expect(items).to.have.lengthOf(1);
    expect(items[0]).to.include({ event: 'call', id: started.id, outcome: 'failed', ms: 12 });
    expect((await read({})).items).to.have.lengthOf(1);
    expect((await read({ outcome: 'started' })).items).to.deep.equal([]);
  });

  it('ROL-08 a viewer reads no arguments of calls, addresses and user agents, and an auditor does', async () => {
    const seen = {
      argumentsJson: '{"member":"grace"}',
      address: '203.0.113.7',
      userAgent: 'curl/8',
    };
    await record({ tool: 'find', ...seen });
    await record({ tool: 'find', arguments: { member: 'grace' } });
    const details = { name: 'Ops' };
    await record({ event: 'connector_created', arguments: details, outcome: 'done' });
    const [created, earlier, call] = (await read({}, 'viewer')).items;
    expect(created).to.deep.include({ arguments: details });
    expect(earlier).to.not.have.property('arguments');
    expect(call).to.include({ tool: 'find' }).and.not.have.any.keys(Object.keys(seen));
    for (const role of ['auditor', 'operator', 'administrator'] as const)
      expect((await read({ tool: 'find' }, role)).items.at(-1), role).to.include(seen);
    for (const q of ['grace', '203.0.113.7', 'curl']) {
      expect((await read({ q }, 'viewer')).items, q).to.deep.equal([]);
      expect((await read({ q }, 'auditor')).items, q).to.not.deep.equal([]);
    }
  });

  it('ROL-08 an auditor changes nothing', async () => {
    const { code, stderr } = await gatehouse(
      ['connector', 'create', '--name', 'Ops', '--level', 'operations'],
      accessTo(host, KEYS.auditor),
    );
    expect(code).to.equal(1);
    expect(stderr).to.include('requires the role operator, and key:auditor has the role auditor');
  });

  it('`q` finds items by the present names of what they are about, by page, and says how many were searched', async () => {
    const body = { name: 'Quarterly numbers', level: 'analytics' };
    const { id } = (await request(host, 'POST', '/api/v1/connectors', { body })).body;
    for (let n = 0; n < 150; n += 1)
      await record({ connector: n % 50 === 0 ? String(id) : 'other', traceId: String(n) });
    const first = await read({ q: 'QUARTERLY', event: 'call', limit: 2 });
    expect(traces(first)).to.deep.equal(['100', '50']);
    expect(first.names).to.deep.equal({ [String(id)]: 'Quarterly numbers' });
    const second = await read({ q: 'quarterly', event: 'call', limit: 2, after: first.next });
    expect(traces(second)).to.deep.equal(['0']);
    expect(second).to.include({ searched: 150 }).and.not.have.property('next');
    const oldest = '/api/v1/audit?q=quarterly&order=oldest';
    expect((await request(host, 'GET', oldest)).status).to.equal(400);
  });

  it('`gatehouse audit` has the filters of the API, and takes names in place of ids', async () => {
    const access = accessTo(host, KEYS.viewer);
    const body = { name: 'Quarterly', level: 'analytics' };
    const { id } = (await request(host, 'POST', '/api/v1/connectors', { body })).body;
    await record({ connector: String(id), tool: 'export_cards', traceId: 'wanted' });
    await record({ connector: String(id), tool: 'other' });
    await record({ tool: 'export_cards', outcome: 'refused' });
    const run = async (...options: string[]) => {
      const { code, stdout, stderr } = await gatehouse(['audit', ...options, '--json'], access);
      expect(code, stderr).to.equal(0);
      return traces(JSON.parse(stdout));
    };
    const wanted = ['--connector', 'Quarterly', '--tool', 'export_cards'];
    expect(await run(...wanted)).to.deep.equal(['wanted']);
    expect(await run(...wanted, '--since', '2020-01-01', '--until', '2020-01-02')).to.deep.equal(
      [],
    );
    expect(await run(...wanted, '--outcome', 'refused')).to.deep.equal([]);
    expect(await run('--account', 'machine:none')).to.deep.equal([]);
    expect(await run('--search', 'quarterly export')).to.deep.equal(['wanted']);
    const unknown = await gatehouse(['audit', '--client', 'Nobody'], access);
    expect(unknown).to.include({ code: 1 });
    expect(unknown.stderr).to.include('there is no client');
  });
});
