import { createHash } from 'node:crypto';
import { expect } from 'chai';
import { upstreamSchema } from '../../src/settings/schema.ts';
import { type AuditItem, recordAudit } from '../../src/audit/audit.ts';
import { readAuditAfter } from '../../src/audit/audit-log.ts';
import { type ManagementHost, openManagementHost, request } from '../management/management-host.ts';
import { auditServices } from '../support/audit-services.ts';

const NOW = 1_900_000_000;

describe('The size of the audit log', () => {
  let host: ManagementHost;
  beforeEach(async () => {
    host = await openManagementHost();
  });
  afterEach(() => host.close());

  async function recorded(tool: string, given: unknown): Promise<AuditItem | undefined> {
    const call = { event: 'call', tool, arguments: given, outcome: 'allowed' };
    await recordAudit(auditServices(host.store, NOW), call);
    return (await readAuditAfter(host.store, 0, 10)).at(-1)?.item;
  }

  it('details of up to 4 kB are recorded as they are', async () => {
    const given = { name: 'x'.repeat(4096 - '{"name":""}'.length) };
    expect(await recorded('find_members', given)).to.deep.include({ arguments: given });
  });

  it('longer details are recorded as their length in bytes and their hash', async () => {
    const given = { name: 'é'.repeat(2100) };
    const json = JSON.stringify(given);
    expect(await recorded('find_members', given)).to.deep.include({
      arguments: {
        bytes: Buffer.byteLength(json),
        sha256: createHash('sha256').update(json).digest('hex'),
      },
    });
  });

  it('the name of every tool that the settings can declare is recorded completely', async () => {
    const name = `${'x'.repeat(127)}y`;
    const tools = [{ name, level: 'full' }];
    expect(
      upstreamSchema.parse({ url: 'https://tools.example.com/mcp', tools }).tools[0]?.name,
    ).to.equal(name);
    expect((await recorded(name, {}))?.tool).to.equal(name);
  });

  it('the name of an unknown tool is truncated', async () => {
    const item = await recorded('x'.repeat(1_000_000), {});
    expect(item?.tool).to.equal('x'.repeat(128));
  });

  it('large items make pages shorter, and consecutive pages have no gap', async () => {
    const reason = 'x'.repeat(300_000);
    const events = Array.from({ length: 9 }, (_, index) => `event_${index}`);
    for (const event of events)
      await recordAudit(auditServices(host.store, NOW), { event, outcome: 'done', reason });
    const read: string[][] = [];
    for (let next: unknown = ''; next !== undefined;) {
      const after = next === '' ? '' : `&after=${String(next)}`;
      const { body } = await request(host, 'GET', `/api/v1/audit?limit=1000${after}`);
      expect(JSON.stringify(body).length).to.be.below(1_500_000);
      read.push((body['items'] as AuditItem[]).map(({ event }) => event));
      next = body['next'];
    }
    expect(read).to.have.length.above(1);
    expect(read.flat()).to.deep.equal(events.toReversed());
  });
});
