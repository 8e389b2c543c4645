import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { startSystem, type System, type SystemOptions } from '../support/system.ts';
import type { Upstream } from '../support/upstream/upstream-server.ts';
import { startUpstreamV1 } from '../support/upstream/sdk-v1.ts';
import { startUpstreamV2 } from '../support/upstream/sdk-v2.ts';
import { DECLARED } from '../support/upstream/upstream-tools.ts';
import { openListening, openSessionStreams, type Streams } from './open-streams.ts';

const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';

describe('Open streams of a process that stops', () => {
  let upstream: Upstream | undefined;
  afterEach(() => upstream?.close());

  type OpenStreams = (link: string, token: string) => Promise<Streams>;

  async function startStreams(
    start: () => Promise<Upstream>,
    openStreams: OpenStreams,
    timeouts?: SystemOptions['timeouts'],
  ): Promise<{ system: System; streams: Streams; startedUpstream: Upstream }> {
    const startedUpstream = (upstream = await start());
    const file = { resourceServer: { upstream: { url: startedUpstream.url, tools: DECLARED } } };
    const system = await startSystem({ file, ...(timeouts ? { timeouts } : {}) });
    startedUpstream.trustIssuer(system.auth);
    const { link } = await createConnector(system);
    const { accessToken } = await connect(system, { link });
    const streams = await openStreams(link, accessToken);
    expect(streams.areClosed()).to.equal(false);
    return { system, streams, startedUpstream };
  }

  it('RSV-10 a stopping process ends subscriptions with their final response, also in the upstream', async () => {
    const { system, streams, startedUpstream } = await startStreams(startUpstreamV2, openListening);
    await system.stop();
    expect(streams.areEnded()).to.equal(true);
    const result = { resultType: 'complete', _meta: { [SUBSCRIPTION_ID]: 1 } };
    expect(streams.lastEvents()).to.deep.equal([{ jsonrpc: '2.0', id: 1, result }]);
    await Promise.all(startedUpstream.received.map(({ closed }) => closed));
  });

  it('RSV-10 a stopping process ends notification streams and waits for calls', async () => {
    const { system, streams, startedUpstream } = await startStreams(
      startUpstreamV1,
      openSessionStreams,
    );
    const stopping = system.stop();
    startedUpstream.release();
    await stopping;
    expect(streams.areEnded()).to.equal(true);
    expect(streams.lastEvents()[1]).to.have.nested.property('result.structuredContent');
  });

  it('RSV-10 a stopping process ends a call that takes too long with an error that says to retry', async () => {
    const { system, streams, startedUpstream } = await startStreams(
      startUpstreamV1,
      openSessionStreams,
      { stop: 100 },
    );
    await system.stop();
    expect(streams.areEnded()).to.equal(true);
    expect(streams.lastEvents()[1]).to.deep.include({
      id: 2,
      error: { code: -32_000, message: 'try again in a moment' },
    });
    await Promise.all(startedUpstream.received.map(({ closed }) => closed));
  });
});
