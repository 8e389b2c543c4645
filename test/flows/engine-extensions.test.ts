// Tests of src/authorization-server/engine/extensions.ts: they fail if a new engine version changes what it relies on.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector } from '../support/management-api.ts';
import { connect, obtainCode, redeem } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { useSystem } from '../support/system.ts';

describe("The engine's extensions", () => {
  const system = useSystem();

  it('SUP-04 codes and refresh tokens contain their grant id', async () => {
    const connector = await createConnector(system());
    const obtained = await obtainCode(system(), connector);
    const { body } = await redeem(obtained);
    const { grant_id: grantId } = decodeJwt(String(body.access_token));
    expect(obtained.callback.searchParams.get('code')).to.match(
      new RegExp(`^${grantId}~[\\w-]{43}$`),
    );
    expect(body.refresh_token).to.match(new RegExp(`^${grantId}~0~[\\w-]{43}$`));
  });

  it('SUP-04 a client can revoke its own access token', async () => {
    const connector = await createConnector(system());
    const { link, client, accessToken } = await connect(system(), connector);
    expect(await isAccepted(link, accessToken)).to.equal(true);
    const { status } = await fetch(`${system().auth}/oauth/revoke`, {
      method: 'POST',
      body: new URLSearchParams({ token: accessToken, client_id: client.id }),
    });
    expect(status).to.equal(200);
    expect(await isAccepted(link, accessToken)).to.equal(false);
  });
});
