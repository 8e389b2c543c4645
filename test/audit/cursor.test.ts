import { expect } from 'chai';
import { recordAudit } from '../../src/audit/audit.ts';
import { type ManagementHost, openManagementHost, request } from '../management/management-host.ts';
import { auditServices } from '../support/audit-services.ts';

describe('The cursor of the audit log', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
    for (const event of ['first', 'second'])
      await recordAudit(auditServices(host.store, 1_900_000_000), { event, outcome: 'done' });
  });
  after(() => host.close());

  it('the `next` of a page is the cursor of the following page', async () => {
    const { body } = await request(host, 'GET', '/api/v1/audit?limit=1');
    const { status, body: rest } = await request(
      host,
      'GET',
      `/api/v1/audit?after=${String(body['next'])}`,
    );
    expect(status).to.equal(200);
    expect(rest['items']).to.have.lengthOf(1).and.have.nested.property('[0].event', 'first');
  });

  for (const after of ['5', '0'.repeat(31), '9'.repeat(33), `${'1'.repeat(31)}x`]) {
    it(`ADM-07 the audit log rejects the cursor ${after}`, async () => {
      const { status, body } = await request(host, 'GET', `/api/v1/audit?after=${after}`);
      expect(status).to.equal(400);
      expect(body).to.deep.equal({
        error: 'invalid_request',
        error_description: 'after: the value of `next` in an earlier page',
      });
    });
  }

  it('the audit log accepts the lowest and the highest possible cursor', async () => {
    for (const [digit, count] of [
      ['0', 0],
      ['9', 2],
    ] as const) {
      const path = `/api/v1/audit?after=${digit.repeat(32)}`;
      const { status, body } = await request(host, 'GET', path);
      expect(status).to.equal(200);
      expect(body['items']).to.have.lengthOf(count);
    }
  });
});
