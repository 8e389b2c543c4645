import { expect } from 'chai';
import { until } from '../support/until.ts';
import { createConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { callTool } from '../support/mcp.ts';
import {
  createDeployment,
  type Deployment,
  startDeployment,
  type System,
} from '../support/system.ts';
import {
  startTraceCollector,
  traceSettings,
  type TraceCollector,
} from '../support/trace-collector.ts';

describe('Traces of roles in separate processes', () => {
  let collector: TraceCollector;
  let place: Deployment;
  const parts: System[] = [];
  before(async () => {
    collector = await startTraceCollector();
    place = await createDeployment({ store: 'redis' });
    for (const roles of ['authorization-server,management', 'resource-server']) {
      const settings = { ...traceSettings(collector), OTEL_SERVICE_NAME: roles };
      parts.push(await startDeployment(place, { ...settings, GATEHOUSE_ROLES: roles }));
    }
  });
  after(async () => {
    for (const part of parts.splice(0)) await part.stop();
    await place.release();
    await collector.stop();
  });

  it('a trace of a call contains the fetch of the signing keys', async () => {
    const [system] = parts;
    if (!system) throw new Error('the system runs only during tests');
    const connector = await createConnector(system);
    const { accessToken } = await connect(system, connector);
    expect((await callTool(connector.link, accessToken, 'club_overview')).status).to.equal(200);
    const asked = await collector.find(({ name }) => name === 'GET authorization-server', 'keys');
    const { port } = new URL(system.auth);
    expect(asked.attributes).to.include({
      'server.port': Number(port),
      'http.response.status_code': 200,
    });
    expect(asked.service).to.include({ 'service.name': 'resource-server' });
    const request = await collector.find(({ spanId }) => spanId === asked.parentSpanId, 'its call');
    expect(request.name).to.equal('POST /connect/:connector/mcp');
    const records = collector.traceOf(request).filter(({ name }) => name.startsWith('get '));
    expect(records.map(({ attributes }) => attributes['db.system.name'])).to.include('redis');
  });

  it('a trace marks the store span as failed if the store does not answer', async () => {
    const [system] = parts;
    if (!system) throw new Error('the system runs only during tests');
    system.signalStore('SIGSTOP');
    const url = `${system.auth}/oauth/register`;
    const body = JSON.stringify({ redirect_uris: ['http://127.0.0.1/callback'] });
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(url, { method: 'POST', headers, body }).finally(() =>
      system.signalStore('SIGCONT'),
    );
    expect(answer.status).to.equal(503);
    const id = answer.headers.get('x-request-id');
    const request = await collector.find(
      ({ attributes }) => attributes['gatehouse.request_id'] === id,
      'the request',
    );
    expect(request.attributes).to.include({ 'error.type': 'temporarily_unavailable' });
    const failed = await until('the failed span', () =>
      collector.traceOf(request).find(({ name }) => name === 'get client-rules'),
    );
    expect(failed.isError).to.equal(true);
    expect(failed.attributes).to.include({ 'error.type': 'StoreUnavailable' });
  });
});
