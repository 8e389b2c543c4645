import { expect } from 'chai';
import type { Finding } from '../../src/doctor/report.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { freePorts } from '../support/free-ports.ts';
import {
  startTraceCollector,
  traceSettings,
  type TraceCollector,
} from '../support/trace-collector.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';

const HEADER = 'the-secret-of-the-collector';

describe("doctor's check of the trace collector", () => {
  let good: GoodDeployment;
  let collector: TraceCollector;
  before(async () => {
    good = await startGoodDeployment();
    collector = await startTraceCollector();
  });
  after(async () => {
    await good.stop();
    await collector.stop();
  });

  async function check(variables: Record<string, string>): Promise<Finding[]> {
    const settings = loadSettings({ ...good.environment, ...variables });
    return good.examine({ settings }, ['traces']);
  }
  const headers = { OTEL_EXPORTER_OTLP_HEADERS: `authorization=${HEADER}` };

  it('the check has no finding if traces are off', async () => {
    expect(await check({})).to.deep.equal([]);
  });

  it('a collector that accepts traces passes the check and receives no span', async () => {
    const [finding, ...more] = await check({ ...traceSettings(collector), ...headers });
    expect(more).to.deep.equal([]);
    expect(finding).to.include({ outcome: 'ok', about: collector.endpoint });
    expect(collector.requests.at(-1)?.headers).to.include({ authorization: HEADER });
    expect(collector.spans()).to.deep.equal([]);
  });

  it('an unreachable collector and one that refuses traces are warnings that do not contain the secret headers', async () => {
    const [port] = await freePorts(1);
    const [unreachable] = await check(traceSettings({ endpoint: `http://127.0.0.1:${port}` }));
    expect(unreachable).to.include({ outcome: 'warning' });
    expect(unreachable?.what).to.include('no process listens there');
    collector.respondWith((_req, res) => res.writeHead(401).end(HEADER));
    const [refused] = await check({ ...traceSettings(collector), ...headers });
    expect(refused).to.include({
      outcome: 'warning',
      what: 'the collector responds with 401 to traces',
    });
    expect(refused?.remedy).to.include('OTEL_EXPORTER_OTLP_HEADERS');
    expect(JSON.stringify(refused)).to.not.include(HEADER);
  });
});
