// A process that stops ends its open streams, so that clients open them elsewhere.
import { expect } from 'chai';
import { createConnector } from '../support/administrator.ts';
import { connect } from '../support/connection.ts';
import { startSystem } from '../support/system.ts';
import { startUpstreamV2 } from '../support/upstream/sdk-v2.ts';
import { DECLARED } from '../support/upstream/tools.ts';
import { openListening } from './open-streams.ts';

describe('A process that stops', () => {
  it('RSV-10 ends its open streams, also those to the upstream', async () => {
    const upstream = await startUpstreamV2();
    const file = { resourceServer: { upstream: { url: upstream.url, tools: DECLARED } } };
    const system = await startSystem({ file });
    upstream.trust(system.auth);
    const connector = await createConnector(system);
    const { accessToken } = await connect(system, connector);
    const streams = await openListening(connector.link, accessToken);
    expect(streams.areClosed()).to.equal(false);
    await system.stop();
    expect(streams.areClosed()).to.equal(true);
    await Promise.all(upstream.received.map(({ closed }) => closed));
    await upstream.close();
  });
});
