import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector, readAudit } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { onEachStore } from '../support/system.ts';

const AT_ONCE = 10;

onEachStore('Concurrent administrators', (system) => {
  async function manage(method: string, path: string): Promise<number> {
    const { management, managementKey } = system();
    const headers = { authorization: `Bearer ${managementKey}` };
    const answer = await fetch(`${management}/api/v1${path}`, { method, headers });
    await answer.text();
    return answer.status;
  }

  const tenTimes = (method: string, path: string) =>
    Promise.all(Array.from({ length: AT_ONCE }, () => manage(method, path)));

  it('ten concurrent revocations of a connector are recorded as one', async () => {
    const { id } = await createConnector(system());
    expect(await tenTimes('DELETE', `/connectors/${id}`)).to.deep.equal(Array(AT_ONCE).fill(200));
    const about = (await readAudit(system())).filter(({ connector }) => connector === id);
    const events = about.map(({ event }) => event);
    expect(events).to.deep.equal(['connector_created', 'connector_revoked']);
  });

  it('ten concurrent disablings of an account are recorded as one', async () => {
    const { accessToken } = await connect(system(), await createConnector(system()));
    const { sub } = decodeJwt(accessToken);
    const statuses = await tenTimes('POST', `/accounts/${sub}/disable`);
    expect(statuses).to.deep.equal(Array(AT_ONCE).fill(200));
    const events = (await readAudit(system())).filter(({ account }) => account === sub);
    expect(events.map(({ event }) => event)).to.deep.equal([
      'signed_in',
      'consent_approved',
      'account_disabled',
    ]);
  });

  it('one of ten concurrent rotations of the signing keys succeeds', async () => {
    const statuses = await tenTimes('POST', '/keys/rotate');
    expect(statuses.sort()).to.deep.equal([201, ...Array(AT_ONCE - 1).fill(409)]);
    const events = (await readAudit(system())).map(({ event }) => event);
    expect(events.filter((event) => event === 'signing_key_rotated')).to.have.length(1);
  });
});
