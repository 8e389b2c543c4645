import { expect } from 'chai';
import { until } from '../../support/until.ts';
import { revokeConnector } from '../../support/management-api.ts';
import { call } from '../../support/mcp.ts';
import { PING, startScriptedUpstream, stream } from '../../support/upstream/scripted-upstream.ts';
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
});
