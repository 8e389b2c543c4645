import { expect } from 'chai';
import { createConnector } from '../../support/management-api.ts';
import { advanceClock } from '../../support/clock.ts';
import { registerClient } from '../../support/connection.ts';
import { isAccepted } from '../../support/mcp.ts';
import { discover, refresh, requestToken } from '../../support/oauth.ts';
import { useSystem } from '../../support/system.ts';
import { postToken } from '../../support/token-endpoints.ts';
import { addressOf, askRaw, findListed, mint } from './minting.ts';

describe('A minted token at the authorization server', () => {
  const system = useSystem({
    file: {
      authorization: {
        introspectionClients: [
          { id: 'other-resource', secret: 'a secret of its own, long enough' },
        ],
      },
    },
  });

  it('STK-04 the authorization server and the management API reject a minted token in every role', async () => {
    const { id, token } = await mint(system());
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const client = await registerClient(server);
    expect((await refresh(server, client, token)).body.error).to.equal('invalid_grant');
    const exchanged = await requestToken(server, client, {
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: token,
    });
    expect(exchanged.status).to.equal(400);

    const { status } = await postToken(server.revocation_endpoint, client, token);
    expect(status).to.be.within(200, 400);
    // Longer than a resource server caches the record.
    advanceClock(11);
    expect(await isAccepted(addressOf(system()), token)).to.equal(true);

    const resource = {
      id: 'other-resource',
      secret: 'a secret of its own, long enough',
      method: 'client_secret_post',
    } as const;
    const endpoint = `${system().auth}/oauth/introspect`;
    const asked = await postToken(endpoint, resource, token);
    expect(asked.status).to.equal(200);
    expect(JSON.parse(asked.text)).to.deep.equal({ active: false });

    const managing = { ...system(), managementKey: token };
    expect((await askRaw(managing, 'DELETE', `/tokens/${id}`)).status).to.equal(401);
    expect(await findListed(system(), id)).to.include({ id });
  });
});
