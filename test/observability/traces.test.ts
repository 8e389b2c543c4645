// Traces: what a collector gets of requests, of what is asked within them, and of whoever says that their trace should go on.
import { expect } from 'chai';
import { startGatehouse } from '../../src/gatehouse.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { until } from '../store/condition.ts';
import { createConnector } from '../support/administrator.ts';
import { connect } from '../support/connection.ts';
import { callTool } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { openPlace, type System } from '../support/system.ts';
import {
  type ReceivedSpan,
  startTraceCollector,
  tracedBy,
  type TraceCollector,
} from '../support/trace-collector.ts';

type Line = Record<string, unknown>;

const STRANGER = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' };
const TRACEPARENT = `00-${STRANGER.traceId}-${STRANGER.spanId}-01`;

describe('Where traces are on', () => {
  const lines: Line[] = [];
  let collector: TraceCollector;
  let system: System;
  let stop = async () => {};

  async function start(settings: Record<string, string> = {}): Promise<void> {
    collector = await startTraceCollector();
    const place = await openPlace();
    const logger = createLogger('info', { write: (line) => void lines.push(JSON.parse(line)) });
    const environment = { ...place.environment, ...tracedBy(collector), ...settings };
    const running = await startGatehouse(loadSettings(environment), { logger });
    stop = async () => {
      await running.stop();
      await collector.stop();
      await place.release();
    };
    system = { ...place.facts, signalStore: place.signalStore, stop };
  }

  /** The span of the request that was answered with this id. */
  const spanOf = (answer: Response): Promise<ReceivedSpan> => {
    const id = answer.headers.get('x-request-id');
    return collector.find(({ attributes }) => attributes['gatehouse.request_id'] === id, `${id}`);
  };
  const ask = async (url: string, init?: RequestInit) => {
    const answer = await fetch(url, { redirect: 'manual', ...init });
    await answer.text();
    return answer;
  };

  describe('every request', () => {
    before(() => start());
    after(() => stop());

    it('is a span named by method and route, with what the conventions say of a server', async () => {
      const { link, id } = await createConnector(system);
      const { hostname, port } = new URL(system.resource);
      const span = await spanOf(await ask(`${link}?q=1`, { method: 'POST' }));
      expect(span.attributes).to.deep.equal({
        'url.scheme': 'http',
        'server.address': hostname,
        'server.port': Number(port),
        'gatehouse.host': 'resource-server',
        'http.request.method': 'POST',
        'http.route': '/connect/:connector/mcp',
        'http.response.status_code': 401,
        'gatehouse.request_id': span.attributes['gatehouse.request_id'],
        'gatehouse.reason': 'token_required',
      });
      expect(span).to.include({
        name: 'POST /connect/:connector/mcp',
        kind: 'server',
        parentSpanId: undefined,
        isError: false,
      });
      expect(JSON.stringify(span)).to.not.include(id);
      expect(span.service).to.include({ 'service.name': 'gatehouse' });
      expect(Object.keys(span.service)).to.include.members([
        'service.version',
        'service.instance.id',
        'telemetry.sdk.name',
      ]);
    });

    it('has the same name whatever its path, and none made up by who sends it', async () => {
      const { auth, resource, management } = system;
      const named: [string, string, RequestInit?][] = [
        [
          `${auth}/.well-known/oauth-authorization-server`,
          'GET /.well-known/oauth-authorization-server',
        ],
        [`${auth}/oauth/authorize?client_id=x`, 'GET /oauth/authorize'],
        [`${auth}/oauth/token`, 'POST /oauth/token', { method: 'POST' }],
        [`${auth}/interaction/abcdefghijklmnopqrstuv`, 'GET /interaction/:uid'],
        [`${resource}/connect/abc/mcp`, 'GET /connect/:connector/mcp'],
        [`${resource}/mcp`, 'DELETE /mcp', { method: 'DELETE' }],
        [`${management}/api/v1/connectors/abc`, 'GET'],
        [`${auth}/no/such/path`, 'GET'],
        [`${auth}/oauth/token`, 'HTTP', { method: 'PROPFIND' }],
      ];
      for (const [url, name, init] of named)
        expect((await spanOf(await ask(url, init))).name, url).to.equal(name);
    });

    it('is in the log under the ids of its span', async () => {
      const answer = await ask(`${system.auth}/oauth/jwks`);
      const { traceId, spanId } = await spanOf(answer);
      const id = answer.headers.get('x-request-id');
      const line = await until('its line', () => lines.find(({ requestId }) => requestId === id));
      expect(line).to.include({ trace_id: traceId, span_id: spanId });
    });

    it('TRC-01 begins a trace of its own: that of its sender is linked, and decides nothing', async () => {
      const headers = { traceparent: TRACEPARENT, tracestate: 'vendor=canary' };
      const span = await spanOf(await ask(`${system.auth}/oauth/jwks`, { headers }));
      expect(span.traceId).to.not.equal(STRANGER.traceId);
      expect(span.parentSpanId).to.equal(undefined);
      expect(span.links).to.deep.equal([STRANGER]);
      const plain = await spanOf(await ask(`${system.auth}/oauth/jwks`));
      expect(plain.links).to.deep.equal([]);
    });

    const malformed = {
      'a version that is none': TRACEPARENT.replace('00-', 'ff-'),
      'no trace': `00-${'0'.repeat(32)}-${STRANGER.spanId}-01`,
      'no span': `00-${STRANGER.traceId}-${'0'.repeat(16)}-01`,
      'more than its version has': `${TRACEPARENT}-more`,
      'capital letters': TRACEPARENT.toUpperCase(),
      'two in one': `${TRACEPARENT}, ${TRACEPARENT}`,
      'something else': 'x'.repeat(4000),
    };
    for (const [what, traceparent] of Object.entries(malformed)) {
      it(`takes no link from a traceparent with ${what}`, async () => {
        const answer = await ask(`${system.auth}/oauth/jwks`, { headers: { traceparent } });
        expect(answer.status).to.equal(200);
        expect((await spanOf(answer)).links).to.deep.equal([]);
      });
    }

    it('leaves probes out', async () => {
      await ask(`${system.auth}/livez`, { headers: { traceparent: TRACEPARENT } });
      await ask(`${system.auth}/readyz`, { headers: { traceparent: TRACEPARENT } });
      const count = () => collector.spans().length;
      const before = count();
      await spanOf(await ask(`${system.auth}/oauth/jwks`));
      expect(count() - before).to.be.below(2);
    });

    it('has a span within for what it asks of the store: verb and kind, and no key', async () => {
      const connector = await createConnector(system);
      const { server, client, refreshToken, accessToken } = await connect(system, connector);
      await refresh(server, client, refreshToken);
      await callTool(connector.link, accessToken, 'club_overview');
      const token = await collector.find(
        ({ name, traceId }) =>
          name === 'POST /oauth/token' &&
          collector
            .spans()
            .some((span) => span.traceId === traceId && span.name === 'update grant'),
        'a grant that is written for a token',
      );
      const write = collector.traceOf(token).find(({ name }) => name === 'update grant');
      expect(write).to.deep.include({
        kind: 'client',
        parentSpanId: token.spanId,
        isError: false,
        attributes: {
          'db.system.name': 'sqlite',
          'db.operation.name': 'update',
          'db.collection.name': 'grant',
        },
      });
      const names = new Set(collector.spans().map(({ name }) => name));
      expect([...names]).to.include.members(['get connector', 'set interaction', 'get grant']);
    });

    it('has a span within for what it asks of the identity provider', async () => {
      await connect(system, await createConnector(system));
      const asked = await collector.find(({ name }) => name === 'POST identity-provider', 'a code');
      const { hostname, port } = new URL(system.origins[2] ?? '');
      expect(asked.attributes).to.deep.equal({
        'http.request.method': 'POST',
        'gatehouse.peer': 'identity-provider',
        'url.scheme': 'http',
        'server.address': hostname,
        'server.port': Number(port),
        'http.response.status_code': 200,
      });
      const [callback] = collector.traceOf(asked).filter(({ kind }) => kind === 'server');
      expect(callback?.name).to.equal('GET /interaction/:uid/callback');
      expect(asked.parentSpanId).to.equal(callback?.spanId);
    });
  });

  describe('of all requests', () => {
    afterEach(() => stop());

    it('TRC-01 none is traced when the sampler says so, whatever their senders say', async () => {
      await start({ OTEL_TRACES_SAMPLER: 'parentbased_always_off' });
      const answer = await ask(`${system.auth}/oauth/jwks`, {
        headers: { traceparent: TRACEPARENT },
      });
      expect(answer.status).to.equal(200);
      await stop();
      stop = async () => {};
      expect(collector.requests).to.deep.equal([]);
    });

    it('a share is traced, each of them whole', async () => {
      await start({ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.5' });
      for (let n = 0; n < 60; n += 1)
        await ask(`${system.resource}/connect/${String(n).padStart(22, 'x')}/mcp`);
      await stop();
      stop = async () => {};
      const spans = collector.spans();
      const requests = spans.filter(({ kind }) => kind === 'server');
      expect(requests.length).to.be.within(8, 52);
      for (const { traceId } of requests)
        expect(spans.filter((span) => span.traceId === traceId)).to.have.length(2);
    });
  });

  describe('the collector', () => {
    after(() => stop());

    it('is told who sends, with the headers it wants, and gets the last spans at the end', async () => {
      await start({
        OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20the-key',
        OTEL_SERVICE_NAME: 'sign-in',
        OTEL_RESOURCE_ATTRIBUTES: 'service.name=other,deployment.environment.name=test',
        OTEL_BSP_SCHEDULE_DELAY: '60000',
      });
      await ask(`${system.auth}/oauth/jwks`);
      await stop();
      stop = async () => {};
      const [request] = collector.requests;
      expect(request?.path).to.equal('/v1/traces');
      expect(request?.headers).to.include({ authorization: 'Bearer the-key' });
      const [span] = collector.spans().filter(({ kind }) => kind === 'server');
      expect(span?.service).to.include({
        'service.name': 'sign-in',
        'deployment.environment.name': 'test',
      });
    });
  });
});
