import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { expect } from 'chai';
import { call, isLimited } from '../../support/mcp.ts';
import { readMetrics, sumOf } from '../../support/metrics.ts';
import { revokeConnector } from '../../support/management-api.ts';
import type { System } from '../../support/system.ts';
import { until } from '../../support/until.ts';
import type { UpstreamHandler } from '../../support/upstream/upstream-server.ts';
import {
  echo,
  event,
  json,
  PING,
  resultFor,
  startScriptedUpstream,
} from '../../support/upstream/scripted-upstream.ts';
import { connectPerson, useUpstream } from '../../support/upstream/system.ts';

/** More than the buffers of a connection on loopback. */
const LARGE = 'x'.repeat(14_000_000);

const RESPONSES: Record<string, UpstreamHandler> = {
  response: (_req, res) => json(res, resultFor(PING, { text: LARGE })),
  stream(_req, res) {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    const message = { jsonrpc: '2.0', method: 'notifications/message', params: { text: LARGE } };
    res.end(event(message) + event(resultFor(PING)));
  },
};

/** Sends a message, and resolves to the response, of which nothing is read. */
async function sendWithoutReading(link: string, token: string): Promise<IncomingMessage> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const sent = request(link, { method: 'POST', headers, agent: false });
  sent.end(JSON.stringify(PING));
  const [response] = await once(sent, 'response');
  return response;
}

async function readRest(response: IncomingMessage) {
  let text = '';
  try {
    for await (const chunk of response.setEncoding('utf8')) text += chunk;
  } catch {
    return { isComplete: false, text };
  }
  return { isComplete: true, text };
}

/** Requests of the resource server that have ended. */
async function countAnswered(system: System): Promise<number> {
  const labels = { host: 'resource-server', status: '2xx' };
  return sumOf(await readMetrics(system), 'gatehouse_requests_total', labels);
}

for (const [kind, handle] of Object.entries(RESPONSES)) {
  describe(`A complete ${kind} that the client does not read`, () => {
    const behind = useUpstream(startScriptedUpstream, {
      settings: { openCalls: { perCaller: 1 } },
    });
    afterEach(() => behind().upstream.respondWith(echo));

    it('DOS-07 the call keeps its slot until the client has read the response', async () => {
      const { link, token } = await behind().connected('analytics');
      behind().upstream.respondWith(handle);
      const response = await sendWithoutReading(link, token);
      behind().upstream.respondWith(echo);
      expect(isLimited(await call(link, token, PING))).to.equal(true);
      expect((await readRest(response)).isComplete).to.equal(true);
      await until('a free slot', async () => !isLimited(await call(link, token, PING)));
    });

    it('the response ends without its rest when the link is revoked', async () => {
      const { system, upstream } = behind();
      const { link, token, connector } = await connectPerson(system, 'analytics');
      const before = upstream.received.length;
      upstream.respondWith(handle);
      const response = await sendWithoutReading(link, token);
      await upstream.received[before]?.closed;
      // Before the first bytes of its events, a revoked stream can still be answered with an error.
      await once(response, 'readable');
      const answered = await countAnswered(system);
      await revokeConnector(system, connector.id);
      await until('the request to end', async () => (await countAnswered(system)) > answered);
      const { isComplete, text } = await readRest(response);
      expect(isComplete).to.equal(false);
      expect(text).to.not.include('"result":{}');
    });
  });

  describe(`A complete ${kind} that the client never reads`, () => {
    const settings = { silence: '1s', openCalls: { perCaller: 1 } };
    const behind = useUpstream(startScriptedUpstream, { settings });
    afterEach(() => behind().upstream.respondWith(echo));

    it('DOS-07 the connection is closed and its slot is free after `silence`', async () => {
      const { system, upstream, connected } = behind();
      const { link, token } = await connected('analytics');
      const answered = await countAnswered(system);
      upstream.respondWith(handle);
      const response = await sendWithoutReading(link, token);
      upstream.respondWith(echo);
      let asked = 0;
      await until('a free slot', async () => {
        asked += 1;
        return !isLimited(await call(link, token, PING));
      });
      await until('all to end', async () => (await countAnswered(system)) === answered + asked + 1);
      // On a busy machine, the time can be over before the first event: then the stream ends with an error.
      expect((await readRest(response)).text.length).to.be.below(LARGE.length);
    });
  });
}
