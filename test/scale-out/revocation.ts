// Tests of revocation across processes, for every kind of Redis.
import { expect } from 'chai';
import { until } from '../support/until.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { refresh } from '../support/oauth.ts';
import { statusesAt } from '../support/scale-out/direct-call.ts';
import type { Processes } from '../support/scale-out/processes.ts';
import { postToken } from '../support/token-endpoints.ts';

/** Shorter than the ten seconds after which cached records expire. */
const NOTIFICATION_SECONDS = 3;

export function testRevocation(processes: () => Processes): void {
  const connected = async () => {
    const connector = await createConnector(processes());
    const connection = await connect(processes(), connector);
    const { link, accessToken } = connection;
    const allStatuses = () => statusesAt(processes().running(), link, accessToken);
    expect(await allStatuses()).to.deep.equal([200, 200, 200]);
    const refused = (status: number) => async () =>
      (await allStatuses()).every((each) => each === status);
    return { ...connection, id: connector.id, refused };
  };

  it('all processes refuse a revoked connect link at once', async () => {
    const { id, refused } = await connected();
    await revokeConnector(processes(), id);
    await until('every process to return 410', refused(410), NOTIFICATION_SECONDS);
  });

  it('all processes refuse a grant that its client revoked at once', async () => {
    const { server, client, refreshToken, refused } = await connected();
    const { status } = await postToken(server.revocation_endpoint, client, refreshToken);
    expect(status).to.equal(200);
    await until('every process to return 401', refused(401), NOTIFICATION_SECONDS);
    const answers = [1, 2, 3].map(() => refresh(server, client, refreshToken));
    for (const { body } of await Promise.all(answers)) expect(body.error).to.equal('invalid_grant');
  });
}
