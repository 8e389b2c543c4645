// W3C Trace Context; MCP 2026-07-28, `_meta`.
import { expect } from 'chai';
import { call } from '../../support/mcp.ts';
import { PING, startScriptedUpstream, toolCall } from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';
import {
  startTraceCollector,
  traceSettings,
  type TraceCollector,
} from '../../support/trace-collector.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const THEIRS = `00-${TRACE}-00f067aa0ba902b7-01`;
const IN_META = `00-${TRACE.replace('4', '5')}-00f067aa0ba902b8-01`;
const HEADERS = { traceparent: THEIRS, tracestate: 'vendor=canary', baggage: 'person=canary' };
const META = { traceparent: IN_META, tracestate: 'vendor=theirs', progressToken: 7 };

type Sent = { params?: { name?: string; _meta?: Record<string, unknown> } };

function withMeta(meta: unknown): object {
  const message = toolCall('plain') as { params: object };
  return { ...message, params: { ...message.params, _meta: meta } };
}

describe('TRC-02 Trace context for the upstream', () => {
  const settings: Record<string, string> = {};
  let collector: TraceCollector;
  before(async () => {
    collector = await startTraceCollector();
    Object.assign(settings, traceSettings(collector));
  });
  const behind = useUpstream(startScriptedUpstream, { system: { settings } });
  after(() => collector.stop());

  async function send(message: object, headers = {}) {
    const { link, token } = await behind().connected('full');
    const { status } = await call(link, token, message, { headers });
    expect(status).to.equal(200);
    const received = behind().upstream.received.at(-1);
    if (!received) throw new Error('nothing was sent on');
    return received;
  }

  const askedIn = (traceparent: unknown) =>
    collector.find(
      ({ traceId, spanId }) => traceparent === `00-${traceId}-${spanId}-01`,
      `the span of ${String(traceparent)}`,
    );

  it('the upstream receives the context of our span, in the header and in the message', async () => {
    const { headers, body } = await send(toolCall('plain'));
    const asked = await askedIn(headers.traceparent);
    expect((body as Sent).params?._meta).to.deep.equal({ traceparent: headers.traceparent });
    expect(asked.name).to.equal('POST upstream');
    const { hostname, port } = new URL(behind().upstream.url);
    expect(asked.attributes).to.deep.equal({
      'http.request.method': 'POST',
      'gatehouse.peer': 'upstream',
      'url.scheme': 'http',
      'server.address': hostname,
      'server.port': Number(port),
      'http.response.status_code': 200,
    });
    const request = await collector.find(
      ({ spanId }) => spanId === asked.parentSpanId,
      'its request',
    );
    expect(request.name).to.equal('POST /connect/:connector/mcp');
  });

  it("the client's trace context is linked and not forwarded", async () => {
    const { headers, body } = await send(withMeta(META), HEADERS);
    expect(headers).to.not.have.any.keys('tracestate', 'baggage');
    expect(headers.traceparent).to.be.a('string').that.does.not.include(TRACE);
    expect((body as Sent).params?._meta).to.deep.equal({
      progressToken: 7,
      traceparent: headers.traceparent,
    });
    const asked = await askedIn(headers.traceparent);
    expect(asked.links.map(({ spanId }) => spanId)).to.deep.equal(['00f067aa0ba902b8']);
    const request = await collector.find(
      ({ spanId }) => spanId === asked.parentSpanId,
      'its request',
    );
    expect(request.links.map(({ spanId }) => spanId)).to.deep.equal(['00f067aa0ba902b7']);
  });

  it('each call has its own span', async () => {
    const [one, two] = [await send(PING), await send(PING)];
    expect(one.headers.traceparent).to.not.equal(two.headers.traceparent);
  });

  it('messages that are not requests, or have another value there, are forwarded unchanged', async () => {
    const odd = await send(withMeta('text'));
    expect((odd.body as Sent).params?._meta).to.equal('text');
    const notification = { jsonrpc: '2.0', method: 'notifications/progress', params: {} };
    const { body } = await send([PING, notification]);
    const [ping, progress] = body as Sent[];
    expect(ping?.params?._meta).to.have.keys('traceparent');
    expect(progress).to.deep.equal(notification);
  });

  it('a failing upstream marks the span as an error', async () => {
    const { link, token } = await behind().connected('full');
    behind().upstream.respondWith((_req, res) => res.writeHead(503).end());
    const { status, headers } = await call(link, token, PING);
    expect(status).to.equal(502);
    const id = headers.get('x-request-id');
    const request = await collector.find(
      ({ attributes }) => attributes['gatehouse.request_id'] === id,
      'the request',
    );
    expect(request).to.include({ isError: true });
    expect(request.attributes).to.include({ 'error.type': 'bad_gateway' });
    const asked = collector.traceOf(request).find(({ name }) => name === 'POST upstream');
    expect(asked?.isError).to.equal(true);
    expect(asked?.attributes).to.include({ 'error.type': '503' });
  });
});

describe('TRC-03 Trace context while traces are off', () => {
  const behind = useUpstream(startScriptedUpstream);

  it('no trace header is sent, and messages are forwarded unchanged', async () => {
    const { link, token } = await behind().connected('full');
    await call(link, token, withMeta(META), { headers: HEADERS });
    await call(link, token, PING);
    const [first, second] = behind().upstream.received.slice(-2);
    expect(first?.headers).to.not.have.any.keys('traceparent', 'tracestate', 'baggage');
    expect(first?.body).to.deep.equal(withMeta(META));
    expect(second?.body).to.deep.equal(PING);
  });
});
