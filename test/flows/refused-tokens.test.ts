// RFC 6750 section 3.1.
import { expect } from 'chai';
import { mint, revoke } from '../links/minted-tokens/minting.ts';
import { createConnector } from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { connect } from '../support/connection.ts';
import { callTool } from '../support/mcp.ts';
import { useSystem } from '../support/system.ts';

describe('The error for a rejected access token', () => {
  const system = useSystem();

  /** The response as a client reads it; the challenge is the same for every reason. */
  async function messageFor(link: string, token: string): Promise<string> {
    const { status, headers, rpc } = await callTool(link, token, 'club_overview');
    const challenge = headers.get('www-authenticate') ?? '';
    expect(status).to.equal(401);
    if (link.includes('/connect/'))
      expect(challenge).to.match(/^Bearer error="invalid_token", res/);
    else expect(challenge).to.equal('Bearer');
    expect(challenge).to.not.include('error_description');
    return rpc?.error?.message ?? '';
  }

  const forge = (token: string) => `${token.slice(0, -8)}AAAAAAAA`;

  it('the error says that a token has expired only if its signature is valid', async () => {
    const connector = await createConnector(system());
    const { accessToken } = await connect(system(), connector);
    advanceClock(3601);
    expect(await messageFor(connector.link, accessToken)).to.match(/has expired.*refresh/);
    const forged = await messageFor(connector.link, forge(accessToken));
    expect(forged).to.equal('the access token is not valid for this connect link');
  });

  it('the error says that the token is for another connect link', async () => {
    const [own, other] = [await createConnector(system()), await createConnector(system())];
    const { accessToken } = await connect(system(), own);
    expect(await messageFor(other.link, accessToken)).to.match(/for another address/);
    expect(await messageFor(other.link, forge(accessToken))).to.not.match(/another/);
  });

  it('the error says that a revoked token has ended, before and after its first use', async () => {
    const connector = await createConnector(system());
    for (const isUsed of [false, true]) {
      const { server, client, accessToken } = await connect(system(), connector);
      if (isUsed) await callTool(connector.link, accessToken, 'club_overview');
      const body = new URLSearchParams({ client_id: client.id, token: accessToken });
      await fetch(server.revocation_endpoint, { method: 'POST', body });
      expect(await messageFor(connector.link, accessToken)).to.match(/was ended/);
      expect(await messageFor(connector.link, forge(accessToken))).to.not.match(/ended/);
    }
  });

  it('the error for a minted token names its reason and says what to use instead', async () => {
    const address = `${system().resource}/mcp`;
    const [short, ended] = [await mint(system(), { expiresIn: '1h' }), await mint(system())];
    const { link, accessToken } = await connect(system(), await createConnector(system()));
    await revoke(system(), ended.id);
    expect(await messageFor(address, ended.token)).to.match(/was revoked; .*connect link/);
    expect(await messageFor(address, accessToken)).to.match(/another address; .*connect link/);
    expect(await messageFor(link, short.token)).to.match(/another address/);
    advanceClock(3601);
    expect(await messageFor(address, short.token)).to.match(/has expired; .*connect link/);
    expect(await messageFor(address, forge(short.token))).to.match(/^this address accepts/);
  });
});
