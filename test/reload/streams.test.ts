import { expect } from 'chai';
import { openListening, openSessionStreams, type Streams } from '../revocation/open-streams.ts';
import { connect } from '../support/connection.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';
import { changeSettings } from '../support/settings-file.ts';
import { startSystem, type System } from '../support/system.ts';
import { until } from '../support/until.ts';
import { startUpstreamV1 } from '../support/upstream/sdk-v1.ts';
import { startUpstreamV2 } from '../support/upstream/sdk-v2.ts';
import type { Upstream } from '../support/upstream/upstream-server.ts';
import { DECLARED } from '../support/upstream/upstream-tools.ts';

const ANYONE = [{ match: { anyone: true }, level: 'operations' }];

describe('Open streams during reloads of the settings', () => {
  let upstream: Upstream;
  let system: System;
  let streams: Streams;
  let later: Streams[];
  let opened: { link: string; accessToken: string };
  const settings = (turn: number, changes = {}) => ({
    entitlements: ANYONE,
    resourceServer: {
      upstream: {
        url: upstream.url,
        tools: DECLARED,
        headers: { 'x-turn': `turn ${turn}` },
        ...changes,
      },
    },
  });
  const reload = async (changed: Record<string, unknown>) => {
    changeSettings(system, changed);
    await requestManagement(system, 'POST', '/settings/reload');
  };

  async function start(
    openUpstream: () => Promise<Upstream>,
    openStreams: (link: string, token: string) => Promise<Streams>,
  ) {
    upstream = await openUpstream();
    system = await startSystem({ file: settings(0) });
    upstream.trustIssuer(system.auth);
    const connector = await createConnector(system);
    opened = await connect(system, connector);
    later = [];
    streams = await openStreams(opened.link, opened.accessToken);
  }
  /** Reloads, and opens further streams, until four versions of the settings have some. Then reloads once more. */
  async function fillGenerations(openStreams: typeof openListening) {
    for (let turn = 1; turn <= 3; turn += 1) {
      await reload(settings(turn));
      later.push(await openStreams(opened.link, opened.accessToken));
    }
    expect(streams.areClosed()).to.equal(false);
    await reload(settings(4));
  }
  afterEach(async () => {
    upstream.release();
    await Promise.all([streams, ...later].map((each) => each.abort()));
    await system.stop();
    await upstream.close();
  });

  it('a reload cuts no stream, and the next call has the new header of the upstream', async () => {
    await start(startUpstreamV1, openSessionStreams);
    await reload(settings(1));
    const before = upstream.received.length;
    const again = await openSessionStreams(opened.link, opened.accessToken);
    later.push(again);
    expect(upstream.received.slice(before).map(({ headers }) => headers['x-turn'])).to.include(
      'turn 1',
    );
    expect(streams.states()).to.deep.equal(['open', 'open']);
    upstream.release();
    await until('the call to end', () => streams.states()[1] === 'ended');
    expect(streams.lastEvents()[1]).to.have.nested.property('result.structuredContent');
    expect(streams.states()[0]).to.equal('open');
  });

  it('a reload beyond four versions ends the oldest idle streams as complete, with a time to come again, and no calls', async () => {
    await start(startUpstreamV1, openSessionStreams);
    await fillGenerations(openSessionStreams);
    await until('the idle stream to end', () => streams.states()[0] === 'ended');
    expect(streams.texts()[0]).to.match(/\nretry: \d+\n\n$/);
    expect(streams.states()[1]).to.equal('open');
    for (const each of later) expect(each.states()).to.deep.equal(['open', 'open']);
    upstream.release();
    await until('the call to end', () => streams.states()[1] === 'ended');
    expect(streams.lastEvents()[1]).to.have.nested.property('result.structuredContent');
  });

  it('further reloads end idle streams of later versions while the oldest has an open call', async () => {
    await start(startUpstreamV1, openSessionStreams);
    await fillGenerations(openSessionStreams);
    await until('the oldest idle stream to end', () => streams.states()[0] === 'ended');
    await reload(settings(5));
    await until('the next idle stream to end', () => later[0]?.states()[0] === 'ended');
    const calls = [streams, ...later].map((each) => each.states()[1]);
    expect(calls).to.deep.equal(['open', 'open', 'open', 'open']);
  });

  it('a reload beyond four versions ends the oldest subscriptions with their final response', async () => {
    await start(startUpstreamV2, openListening);
    await fillGenerations(openListening);
    await until('the subscription to end', () => streams.areEnded());
    expect(streams.lastEvents()[0]).to.have.nested.property('result.resultType', 'complete');
  });

  it('RSV-13 a reload that takes a level away ends streams that were opened before', async () => {
    await start(startUpstreamV1, openSessionStreams);
    await reload({ entitlements: [{ match: { subject: 'grace' }, level: 'operations' }] });
    await until('the streams to end', () => streams.areClosed());
  });

  it('RSV-13 a reload that pauses an upstream ends its streams, and calls get an error that says so', async () => {
    await start(startUpstreamV1, openSessionStreams);
    await reload(settings(0, { paused: true }));
    await until('the streams to end', () => streams.areClosed());
    const { rpc } = await callTool(opened.link, opened.accessToken, 'whoami');
    expect(rpc?.result).to.include({ isError: true });
    expect(rpc?.result?.content?.[0]?.text).to.include('paused');
  });

  it('RSV-13 a list of tools on a connector ends the call of a tool that it does not open, and tells idle streams', async () => {
    await start(startUpstreamV1, openSessionStreams);
    const [, id = ''] = /connect\/(\w+)/.exec(opened.link) ?? [];
    await requestManagement(system, 'PATCH', `/connectors/${id}`, { tools: ['!wait'] });
    await until('the streams to end', () => streams.areEnded());
    expect(streams.lastEvents()[0]).to.include({ method: 'notifications/tools/list_changed' });
    expect(JSON.stringify(streams.lastEvents()[1])).to.include('may use was changed meanwhile');
  });

  it('RSV-13 a reload with other tools of an entitlement ends subscriptions, so that apps read the lists again', async () => {
    await start(startUpstreamV2, openListening);
    await reload({ entitlements: [{ ...ANYONE[0], tools: ['!wait'] }] });
    await until('the subscription to end', () => streams.areEnded());
    expect(streams.lastEvents()[0]).to.have.nested.property('result.resultType', 'complete');
    const { rpc } = await callTool(opened.link, opened.accessToken, 'wait');
    expect(rpc?.result).to.include({ isError: true });
  });
});
