// What is revoked at one process is refused by all: claims for every kind of Redis.
import { expect } from 'chai';
import { until } from '../store/condition.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { refresh } from '../support/oauth.ts';
import { statusesAt } from '../support/scale-out/direct-call.ts';
import type { Processes } from '../support/scale-out/processes.ts';
import { postToken } from '../support/token-endpoints.ts';

/** Much less than the ten seconds after which every process reads again. */
const AT_ONCE_SECONDS = 3;

export function revocationIsHeard(processes: () => Processes): void {
  const connected = async () => {
    const connector = await createConnector(processes());
    const connection = await connect(processes(), connector);
    const { link, accessToken } = connection;
    const everywhere = () => statusesAt(processes().running(), link, accessToken);
    expect(await everywhere()).to.deep.equal([200, 200, 200]);
    const refused = (status: number) => async () =>
      (await everywhere()).every((each) => each === status);
    return { ...connection, id: connector.id, refused };
  };

  it('a revoked connect link is gone at all of them at once', async () => {
    const { id, refused } = await connected();
    await revokeConnector(processes(), id);
    await until('every process answers 410', refused(410), AT_ONCE_SECONDS);
  });

  it('a grant that its client ended is refused by all of them at once', async () => {
    const { server, client, refreshToken, refused } = await connected();
    const { status } = await postToken(server.revocation_endpoint, client, refreshToken);
    expect(status).to.equal(200);
    await until('every process answers 401', refused(401), AT_ONCE_SECONDS);
    const answers = [1, 2, 3].map(() => refresh(server, client, refreshToken));
    for (const { body } of await Promise.all(answers)) expect(body.error).to.equal('invalid_grant');
  });
}
