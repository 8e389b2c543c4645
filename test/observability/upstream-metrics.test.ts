import { expect } from 'chai';
import { startOpenUpstream } from '../init/open-upstream.ts';
import { type LogLine, startSystem } from '../support/system.ts';
import { until } from '../support/until.ts';
import { requestManagement } from '../support/management-api.ts';
import { call } from '../support/mcp.ts';
import { readMetrics, sumOf } from '../support/metrics.ts';
import {
  echo,
  event,
  PING,
  startScriptedUpstream,
  stream,
} from '../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../support/upstream/system.ts';

describe('Metrics of the upstream MCP server', () => {
  const behind = useUpstream(startScriptedUpstream, { settings: { timeout: '5s', silence: '1m' } });
  afterEach(() => behind().upstream.respondWith(echo));
  const read = async (name: string, labels = {}) =>
    sumOf(await readMetrics(behind().system), name, { ...labels });
  const failed = (reason: string) => read('gatehouse_upstream_errors_total', { reason });

  it('the metrics count calls that fail because the upstream is down or slow', async () => {
    const { link, token } = await behind().connected('operations');
    behind().upstream.respondWith((req) => req.socket.destroy());
    await call(link, token, PING);
    await until('the failure to be counted', async () => (await failed('bad_gateway')) === 1);
    behind().upstream.respondWith(() => undefined);
    await call(link, token, PING);
    await until('the failure to be counted', async () => (await failed('gateway_timeout')) === 1);
    const named = { upstream: 'default', reason: 'bad_gateway' };
    expect(await read('gatehouse_upstream_errors_total', named)).to.equal(1);
  });

  it('the metrics count open streams and streams that the upstream breaks off', async () => {
    const { link, token } = await behind().connected('operations');
    const before = await failed('bad_gateway');
    const timed = await read('gatehouse_request_seconds_count', { host: 'resource-server' });
    let breakOff = () => {};
    behind().upstream.respondWith((req, res) => {
      stream(res, event({ jsonrpc: '2.0', method: 'notifications/message', params: {} }));
      breakOff = () => req.socket.resetAndDestroy();
    });
    const answer = call(link, token, PING);
    const open = () => read('gatehouse_open_streams', { host: 'resource-server' });
    await until('the stream to open', async () => (await open()) === 1);
    expect(await failed('bad_gateway')).to.equal(before);
    breakOff();
    await answer;
    await until('the stream to end', async () => (await open()) === 0);
    await until(
      'the end of the stream to be counted',
      async () => (await failed('bad_gateway')) === before + 1,
    );
    expect(await read('gatehouse_request_seconds_count', { host: 'resource-server' })).to.equal(
      timed,
    );
  });
});

describe('An upstream that stops', () => {
  it('an upstream is shown as failing after the first failed call, and named in the log', async () => {
    const upstream = await startOpenUpstream([{ name: 'list_orders' }]);
    const log: LogLine[] = [];
    const system = await startSystem({
      file: { resourceServer: { upstream: { url: upstream.url } } },
      log,
    });
    try {
      const shown = async () =>
        (await requestManagement(system, 'GET', '/upstreams/default')) as {
          seenAt?: string;
          error?: { fault: string };
        };
      await until('the tools to be read', async () => (await shown()).seenAt !== undefined);
      const { error } = await shown();
      expect(error).to.equal(undefined);
      const body = { name: 'Report', level: 'full' };
      const minted = await requestManagement(system, 'POST', '/tokens', body);
      await upstream.stop();
      await call(`${system.resource}/mcp`, (minted as { token: string }).token, PING);
      await until('the failure to be shown', async () => (await shown()).error !== undefined);
      expect((await shown()).error?.fault).to.equal('unreachable');
      expect(log.some(({ what }) => what === upstream.url)).to.equal(true);
    } finally {
      await system.stop();
    }
  });
});
