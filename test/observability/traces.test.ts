import { expect } from 'chai';
import { startGatehouse } from '../../src/server.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { until } from '../support/until.ts';
import { createConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { callTool } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { createDeployment, type System } from '../support/system.ts';
import {
  type ReceivedSpan,
  startTraceCollector,
  traceSettings,
  type TraceCollector,
} from '../support/trace-collector.ts';

type Line = Record<string, unknown>;

const STRANGER = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' };
const TRACEPARENT = `00-${STRANGER.traceId}-${STRANGER.spanId}-01`;

describe('Traces', () => {
  const lines: Line[] = [];
  let collector: TraceCollector;
  let system: System;
  let stop = async () => {};

  async function start(settings: Record<string, string> = {}): Promise<void> {
    collector = await startTraceCollector();
    const place = await createDeployment();
    const logger = createLogger('info', { write: (line) => void lines.push(JSON.parse(line)) });
    const environment = { ...place.environment, ...traceSettings(collector), ...settings };
    const running = await startGatehouse(loadSettings(environment), { logger });
    stop = async () => {
      await running.stop();
      await collector.stop();
      await place.release();
    };
    system = { ...place.facts, signalStore: place.signalStore, stop };
  }

  /** Returns the span of the request with this request id. */
  const spanOf = (answer: Response): Promise<ReceivedSpan> => {
    const id = answer.headers.get('x-request-id');
    return collector.find(({ attributes }) => attributes['gatehouse.request_id'] === id, `${id}`);
  };
  const ask = async (url: string, init?: RequestInit) => {
    const answer = await fetch(url, { redirect: 'manual', ...init });
    await answer.text();
    return answer;
  };

  describe('The span of a request', () => {
    before(() => start());
    after(() => stop());

    it('the span of a request is named by method and route, with the attributes of the OpenTelemetry conventions', async () => {
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

    it('the span name does not depend on the path or on an unknown method', async () => {
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

    it('the log line of a request contains its trace id and span id', async () => {
      const answer = await ask(`${system.auth}/oauth/jwks`);
      const { traceId, spanId } = await spanOf(answer);
      const id = answer.headers.get('x-request-id');
      const line = await until('the log line', () =>
        lines.find(({ requestId }) => requestId === id),
      );
      expect(line).to.include({ trace_id: traceId, span_id: spanId });
    });

    it('TRC-01 every request starts a new trace, which links the trace of the client and ignores its sampling', async () => {
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
      it(`a traceparent with ${what} is not linked`, async () => {
        const answer = await ask(`${system.auth}/oauth/jwks`, { headers: { traceparent } });
        expect(answer.status).to.equal(200);
        expect((await spanOf(answer)).links).to.deep.equal([]);
      });
    }

    it('health probes have no span', async () => {
      await ask(`${system.auth}/livez`, { headers: { traceparent: TRACEPARENT } });
      await ask(`${system.auth}/readyz`, { headers: { traceparent: TRACEPARENT } });
      const count = () => collector.spans().length;
      const before = count();
      await spanOf(await ask(`${system.auth}/oauth/jwks`));
      expect(count() - before).to.be.below(2);
    });

    it('each store command within a request has a child span with verb and kind, without the key', async () => {
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

    it('each request to the identity provider has a child span', async () => {
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

  describe('Sampling of traces', () => {
    afterEach(() => stop());

    it('TRC-01 no request is traced at a ratio of zero, whatever the client sends', async () => {
      await start({ OTEL_TRACES_SAMPLER: 'parentbased_always_off' });
      const answer = await ask(`${system.auth}/oauth/jwks`, {
        headers: { traceparent: TRACEPARENT },
      });
      expect(answer.status).to.equal(200);
      await stop();
      stop = async () => {};
      expect(collector.requests).to.deep.equal([]);
    });

    it('a share of the requests is traced, each completely', async () => {
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

  describe('The trace collector', () => {
    after(() => stop());

    it('the collector receives resource attributes, the configured headers and the last spans at shutdown', async () => {
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
