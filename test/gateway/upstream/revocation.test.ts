import { once } from 'node:events';
import { request } from 'node:http';
import { expect } from 'chai';
import { until } from '../../support/until.ts';
import { addressOf, mint, revoke } from '../../links/minted-tokens/minting.ts';
import { revokeConnector } from '../../support/management-api.ts';
import { call } from '../../support/mcp.ts';
import {
  echo,
  PING,
  startScriptedUpstream,
  stream,
} from '../../support/upstream/scripted-upstream.ts';
import { connectPerson, useUpstream } from '../../support/upstream/system.ts';

describe('An upstream call during a revocation', () => {
  const behind = useUpstream(startScriptedUpstream);

  it('the call returns what a new call would return, and ends at the upstream', async () => {
    const { system, upstream } = behind();
    const { link, token, connector } = await connectPerson(system, 'analytics');
    const before = upstream.received.length;
    upstream.respondWith(() => undefined);
    const answer = call(link, token, PING);
    await until('the upstream to receive the call', () => upstream.received.length > before);
    await revokeConnector(system, connector.id);
    const { status, rpc } = await answer;
    expect(status).to.equal(410);
    expect(rpc?.error?.message).to.match(/revoked; ask for a fresh one/);
    await upstream.received[before]?.closed;
  });

  it("the call's stream ends with an error", async () => {
    const { system, upstream } = behind();
    const { link, token, connector } = await connectPerson(system, 'analytics');
    const before = upstream.received.length;
    upstream.respondWith((_req, res) => stream(res, ':\n\n'));
    const answer = call(link, token, PING);
    await until('the upstream to receive the call', () => upstream.received.length > before);
    await revokeConnector(system, connector.id);
    const { text } = await answer;
    expect(text).to.match(/"id":1,"error":\{.*revoked; ask for a fresh one.*\}\n\n$/);
    await upstream.received[before]?.closed;
  });

  /** Sends a message whose body ends after `revoke`, and returns the status. */
  async function sendAround(address: string, token: string, revoke: () => Promise<unknown>) {
    expect((await call(address, token, PING)).status).to.equal(200);
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      expect: '100-continue',
    };
    const sent = request(address, { method: 'POST', headers, agent: false });
    sent.flushHeaders();
    await once(sent, 'continue');
    await revoke();
    const answered = once(sent, 'response');
    sent.end(JSON.stringify(PING));
    const [response] = await answered;
    response.resume();
    return response.statusCode;
  }

  it('a call whose body ends after the revocation is refused', async () => {
    const { system, upstream } = behind();
    upstream.respondWith(echo);
    const { link, token, connector } = await connectPerson(system, 'analytics');
    const minted = await mint(system);
    const ended = () => revokeConnector(system, connector.id);
    expect(await sendAround(link, token, ended)).to.equal(410);
    const revoked = () => revoke(system, minted.id);
    expect(await sendAround(addressOf(system), minted.token, revoked)).to.equal(401);
  });
});
