import { expect } from 'chai';
import { addressOf, mint } from '../../links/minted-tokens/minting.ts';
import { connect, openConsent } from '../../support/connection.ts';
import { until } from '../../support/until.ts';
import { call, callTool } from '../../support/mcp.ts';
import {
  createConnector,
  listGrants,
  requestManagement,
  showConnector,
} from '../../support/management-api.ts';
import { refresh } from '../../support/oauth.ts';
import { restartSystem } from '../../support/restart.ts';
import {
  createDeployment,
  type Deployment,
  startDeployment,
  type System,
} from '../../support/system.ts';
import { PING, toolCall } from '../../support/upstream/scripted-upstream.ts';
import { startUpstreamV2 } from '../../support/upstream/sdk-v2.ts';
import { connectPerson } from '../../support/upstream/system.ts';
import { DECLARED } from '../../support/upstream/upstream-tools.ts';
import type { Upstream } from '../../support/upstream/upstream-server.ts';

const LIST = { jsonrpc: '2.0', id: 7, method: 'tools/list' };

describe('A pause in front of an upstream', () => {
  let upstream: Upstream;
  let place: Deployment;
  let system: System;
  const settings = (more: object = {}) => ({
    resourceServer: { upstreams: [{ id: 'orders', url: upstream.url, tools: DECLARED, ...more }] },
  });
  before(async () => {
    upstream = await startUpstreamV2();
    place = await createDeployment({ file: settings() });
    system = await startDeployment(place);
    upstream.trustIssuer(system.auth);
    await until('the tools to be read', async () => (await toolsOf()).length > 0);
  });
  after(async () => {
    upstream.release();
    await system.stop();
    await place.release();
    await upstream.close();
  });

  async function toolsOf(): Promise<unknown[]> {
    const found = await requestManagement(system, 'GET', '/upstreams/orders');
    return (found as { tools: unknown[] }).tools;
  }

  const pause = (id: string, paused: boolean) =>
    requestManagement(system, 'PATCH', `/connectors/${id}`, { paused });

  async function expectPaused(link: string, token: string, text: RegExp): Promise<void> {
    const before = upstream.received.length;
    const { status, rpc } = await callTool(link, token, 'whoami');
    expect(status).to.equal(200);
    expect(rpc?.result?.isError).to.equal(true);
    expect(rpc?.result?.content?.[0]?.text).to.match(text);
    const ping = await call(link, token, PING);
    expect([ping.status, ping.rpc?.error?.message]).to.satisfy(
      ([code, message]: [number, string]) => code === 200 && text.test(message),
    );
    const batch = await call(link, token, [toolCall('whoami', 1), LIST]);
    expect(JSON.parse(batch.text)).to.have.length(2);
    const notification = { jsonrpc: '2.0', method: 'notifications/initialized' };
    expect((await call(link, token, notification)).status).to.equal(503);
    for (const method of ['GET', 'DELETE']) {
      const headers = { authorization: `Bearer ${token}`, accept: 'text/event-stream' };
      expect((await fetch(link, { method, headers })).status, method).to.equal(503);
    }
    expect(upstream.received).to.have.length(before);
  }

  it('CHG-04 forwards nothing through a paused link, and lists the tools that the link can open as they were last read', async () => {
    const { connector, link, token } = await connectPerson(system, 'analytics', 'admin');
    await pause(connector.id, true);
    await expectPaused(link, token, /^this connect link is paused/);
    const { rpc } = await call(link, token, LIST);
    expect(rpc).to.include({ id: 7 });
    expect(rpc?.result?.tools?.map(({ name }) => name)).to.deep.equal([
      'whoami',
      'wait',
      'contacts',
    ]);
    await pause(connector.id, false);
    expect((await callTool(link, token, 'whoami')).rpc?.result?.isError).to.not.equal(true);
  });

  it('CHG-04 a call that is open when its link is paused ends with the error', async () => {
    const { connector, link, token } = await connectPerson(system, 'analytics');
    const waiting = upstream.waiting();
    const open = callTool(link, token, 'wait');
    await until('the call to reach the upstream', () => upstream.waiting() === waiting + 1);
    await pause(connector.id, true);
    const { text } = await open;
    expect(text).to.include('this connect link is paused');
  });

  it('CHG-03 the result of a call that is open when its link is lowered is withheld', async () => {
    const { connector, link, token } = await connectPerson(system, 'admin');
    const waiting = upstream.waiting();
    const open = callTool(link, token, 'wait');
    await until('the call to reach the upstream', () => upstream.waiting() === waiting + 1);
    await requestManagement(system, 'PATCH', `/connectors/${connector.id}`, {
      level: 'analytics',
    });
    const { text } = await open;
    expect(text).to.include('the level of this connection was lowered meanwhile');
    expect((await callTool(link, token, 'whoami')).rpc?.result?.isError).to.not.equal(true);
  });

  it('CHG-04 an upstream that is paused in the settings pauses its links and minted tokens, and nobody has to connect again', async () => {
    const connector = await createConnector(system, { level: 'admin' });
    const minted = await mint(system, { level: 'analytics' });
    const { link, server, client, accessToken, refreshToken } = await connect(system, connector);
    await system.stop();
    system = await restartSystem(place, settings({ paused: true }));
    await expectPaused(link, accessToken, /^this connect link is paused/);
    await expectPaused(addressOf(system), minted.token, /^this MCP server is paused/);
    const shown = await showConnector(system, connector.id);
    expect(shown).to.include({ state: 'paused' }).and.not.have.property('paused');
    expect(await requestManagement(system, 'GET', '/upstreams/orders')).to.include({
      paused: true,
    });
    const { body } = await refresh(server, client, refreshToken);
    const { page } = await openConsent(system, connector);
    expect(page.html).to.include('This connect link is paused');
    await system.stop();
    system = await restartSystem(place, settings());
    const { rpc } = await callTool(link, body.access_token, 'whoami');
    expect(rpc?.result).to.not.equal(undefined).and.not.include({ isError: true });
    const [grant] = (await listGrants(system, { connector: connector.id })).items;
    expect(grant).to.include({ state: 'active' });
  });
});
