// Tests of revocation across processes, for every kind of Redis.
import { expect } from 'chai';
import { until } from '../support/until.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { refresh } from '../support/oauth.ts';
import { statusesAt } from '../support/scale-out/direct-call.ts';
import type { Processes } from '../support/scale-out/processes.ts';
import { postToken } from '../support/token-endpoints.ts';

/** Connects, with every process accepting the token. `allRefuse` resolves when every process returns this status. */
export async function connectEverywhere(processes: Processes) {
  const connector = await createConnector(processes);
  const connection = await connect(processes, connector);
  const { link, accessToken } = connection;
  const statuses = async () => new Set(await statusesAt(processes.running(), link, accessToken));
  expect(await statuses()).to.deep.equal(new Set([200]));
  const allRefuse = (status: number) =>
    until(`every process to return ${status}`, async () =>
      (await statuses()).isSubsetOf(new Set([status])),
    );
  return { ...connection, id: connector.id, statuses, allRefuse };
}

export function testRevocation(processes: () => Processes): void {
  describe('while their clocks stand still', () => {
    // Cached records do not expire, so only a notification can end them.
    before(() => processes().setClocks({ freezeAt: Date.now() / 1000 }));
    after(() => processes().setClocks('restore'));

    it('all instances refuse a revoked connect link at once', async () => {
      const { id, allRefuse } = await connectEverywhere(processes());
      await revokeConnector(processes(), id);
      await allRefuse(410);
    });

    it('all instances refuse a grant that its client revoked at once', async () => {
      const { server, client, refreshToken, allRefuse } = await connectEverywhere(processes());
      const { status } = await postToken(server.revocation_endpoint, client, refreshToken);
      expect(status).to.equal(200);
      await allRefuse(401);
      const answers = [1, 2, 3].map(() => refresh(server, client, refreshToken));
      for (const { body } of await Promise.all(answers))
        expect(body.error).to.equal('invalid_grant');
    });
  });
}
